//! A network that can be cut: every pair of nodes talks through TCP proxies of its own.
//!
//! Members have names instead of addresses; the network knows where a name listens at the moment. A cut does not close
//! connections: bytes stop flowing, as when a cable is pulled, and flow again when it is healed.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_consensus::{ConnectError, Connector, Lane, TcpConnector};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tonic::transport::{Channel, ClientTlsConfig};

type Cuts = HashSet<(String, String)>;
type Limits = HashMap<(String, String), usize>;

pub struct TestNetwork {
    runtime: Option<Runtime>,
    listeners: Mutex<HashMap<String, SocketAddr>>,
    proxies: Mutex<HashMap<(String, String, Lane), SocketAddr>>,
    dialled: Mutex<HashMap<(String, String, Lane), usize>>,
    cuts: watch::Sender<Cuts>,
    limits: watch::Sender<Limits>,
}

impl TestNetwork {
    pub fn new() -> Arc<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Arc::new(Self {
            runtime: Some(runtime.expect("a runtime can be made")),
            listeners: Mutex::default(),
            proxies: Mutex::default(),
            dialled: Mutex::default(),
            cuts: watch::Sender::default(),
            limits: watch::Sender::default(),
        })
    }

    /// `name` listens here from now on.
    pub fn listen(&self, name: &str, address: SocketAddr) {
        self.listeners.lock().insert(name.to_owned(), address);
    }

    pub fn connector(self: &Arc<Self>, from: &str, tls: Option<ClientTlsConfig>) -> Arc<dyn Connector> {
        let inner = TcpConnector::new(tls);
        Arc::new(TestConnector { network: Arc::clone(self), from: from.to_owned(), inner })
    }

    /// Stops bytes from `from` to `to`, in connections made by either.
    pub fn cut(&self, from: &str, to: &str) {
        self.cuts.send_modify(|cuts| {
            cuts.insert((from.to_owned(), to.to_owned()));
        });
    }

    /// Stops all bytes between `name` and everybody it talks with.
    pub fn isolate(&self, name: &str) {
        let names: Vec<String> = self.listeners.lock().keys().cloned().collect();
        for other in names.iter().filter(|other| *other != name) {
            self.cut(name, other);
            self.cut(other, name);
        }
    }

    /// Lets each connection from `from` to `to` carry so many bytes and then no more.
    pub fn limit_bytes(&self, from: &str, to: &str, bytes: usize) {
        self.limits.send_modify(|limits| {
            limits.insert((from.to_owned(), to.to_owned()), bytes);
        });
    }

    /// Whoever listens as `from` is only found as `to` from now on.
    pub fn move_listener(&self, from: &str, to: &str) {
        let mut listeners = self.listeners.lock();
        let address = listeners.remove(from).expect("it listens");
        listeners.insert(to.to_owned(), address);
    }

    pub fn heal(&self) {
        self.limits.send_modify(HashMap::clear);
        self.cuts.send_modify(Cuts::clear);
    }

    /// How often `from` has tried to connect to `to` for this purpose.
    pub fn dialled(&self, from: &str, to: &str, lane: Lane) -> usize {
        self.dialled.lock().get(&(from.to_owned(), to.to_owned(), lane)).copied().unwrap_or(0)
    }

    fn proxy(self: &Arc<Self>, from: &str, to: &str, lane: Lane) -> SocketAddr {
        let pair = (from.to_owned(), to.to_owned(), lane);
        *self.proxies.lock().entry(pair.clone()).or_insert_with(|| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
            listener.set_nonblocking(true).expect("sockets can be non-blocking");
            let address = listener.local_addr().expect("a bound socket has an address");
            let network = Arc::downgrade(self);
            let (cuts, limits) = (self.cuts.subscribe(), self.limits.subscribe());
            let runtime = self.runtime.as_ref().expect("the network runs");
            runtime.spawn(async move {
                let listener = TcpListener::from_std(listener).expect("inside a runtime");
                while let Ok((inbound, _)) = listener.accept().await {
                    let Some(network) = network.upgrade() else { return };
                    let target = network.listeners.lock().get(&pair.1).copied();
                    *network.dialled.lock().entry(pair.clone()).or_default() += 1;
                    drop(network);
                    let gate = Gate {
                        cuts: cuts.clone(),
                        limits: limits.clone(),
                        from: pair.0.clone(),
                        to: pair.1.clone(),
                        carried: 0,
                    };
                    tokio::spawn(connect(inbound, target, gate));
                }
            });
            address
        })
    }
}

impl Drop for TestNetwork {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn connect(inbound: TcpStream, target: Option<SocketAddr>, mut forth: Gate) {
    let back = Gate { from: forth.to.clone(), to: forth.from.clone(), ..forth.clone() };
    forth.open(0).await;
    let Some(target) = target else { return };
    let Ok(outbound) = TcpStream::connect(target).await else { return };
    let _ = (inbound.set_nodelay(true), outbound.set_nodelay(true));
    let (inbound_read, inbound_write) = inbound.into_split();
    let (outbound_read, outbound_write) = outbound.into_split();
    tokio::select! {
        () = pump(inbound_read, outbound_write, forth) => {}
        () = pump(outbound_read, inbound_write, back) => {}
    }
}

#[derive(Clone)]
struct Gate {
    cuts: watch::Receiver<Cuts>,
    limits: watch::Receiver<Limits>,
    from: String,
    to: String,
    carried: usize,
}

impl Gate {
    /// Returns when `length` more bytes may pass.
    async fn open(&mut self, length: usize) {
        let pair = (self.from.clone(), self.to.clone());
        self.carried += length;
        let carried = self.carried;
        let _ = self.limits.wait_for(|limits| limits.get(&pair).is_none_or(|limit| carried <= *limit)).await;
        let _ = self.cuts.wait_for(|cuts| !cuts.contains(&pair)).await;
    }
}

async fn pump(mut read: impl AsyncReadExt + Unpin, mut write: impl AsyncWriteExt + Unpin, mut gate: Gate) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = read.read(&mut buffer).await {
        gate.open(length).await;
        if write.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

struct TestConnector {
    network: Arc<TestNetwork>,
    from: String,
    inner: TcpConnector,
}

impl Connector for TestConnector {
    fn connect(&self, address: &str, lane: Lane) -> Result<Channel, ConnectError> {
        let proxy = self.network.proxy(&self.from, address, lane);
        self.inner.connect(&proxy.to_string(), lane)
    }
}
