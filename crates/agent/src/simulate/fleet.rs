//! The simulated nodes: their Node objects and their leases.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use parking_lot::RwLock;
use setpoint_client::{AcquireOptions, Client, KeepAlive, Typed, WriteOptions};
use setpoint_types::kinds::{AgentInfo, Namespace, NamespaceSpec};
use setpoint_types::object::Fence;
use setpoint_types::quantity::Amounts;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::node::pressure::Pressure;
use crate::node::register::Host;
use crate::node::{NAMESPACE, lease_name};
use crate::settings::{Checked, RunArgs};

/// Nodes whose leases are kept on one stream, one after the other.
const NODES_PER_STREAM: usize = 256;

/// Nodes that register at the same time.
const REGISTERING_MAX: usize = 32;

/// A lease is renewed so often in its time.
const RENEWALS: u32 = 3;

/// Between attempts that failed.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// All simulated nodes.
pub struct Fleet {
    hosts: Vec<Host>,
    holder: String,
    ttl: Duration,
    client: Client,
    clock: Clock,
    /// The nodes whose leases are held, by name.
    held: RwLock<HashMap<String, Fence>>,
    changed: Notify,
    ready: watch::Sender<bool>,
}

impl Fleet {
    pub fn new(args: &RunArgs, checked: &Checked, count: u32, client: &Client, clock: Clock) -> Self {
        let simulation = &args.simulation;
        let mut capacity: Amounts = [("cpu", 16_000), ("memory", 64 << 30)]
            .map(|(name, amount)| (name.to_owned(), amount))
            .into_iter()
            .collect();
        for (dimension, amount) in checked.capacity.iter() {
            capacity.insert(dimension, amount);
        }
        let host = |number: u32| {
            let name = format!("{}-{number:05}", simulation.simulate_prefix);
            Host {
                zone: format!("zone-{}", number % simulation.simulate_zones),
                labels: checked.labels.clone(),
                capacity: capacity.clone(),
                reserved: checked.reserved.clone(),
                agent: AgentInfo {
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                    address: format!("{}:{}", checked.host, args.listen_http.port()),
                    boot_id: format!("simulated-{:016x}", client.entropy().draw()),
                    started: clock.now().wall,
                    runtimes: vec!["process".to_owned(), "docker".to_owned()],
                    os: std::env::consts::OS.to_owned(),
                    arch: std::env::consts::ARCH.to_owned(),
                },
                name,
            }
        };
        Self {
            hosts: (0..count).map(host).collect(),
            holder: format!("simulation-{:016x}", client.entropy().draw()),
            ttl: checked.lease_ttl,
            client: client.clone(),
            clock,
            held: RwLock::default(),
            changed: Notify::new(),
            ready: watch::Sender::new(false),
        }
    }

    /// The fence of a node whose lease is held, and what its host is called. None: it is not one of these, or not held.
    pub fn held(&self, node: &str) -> Option<(Fence, String)> {
        self.held.read().get(node).map(|fence| (fence.clone(), node.to_owned()))
    }

    /// Ends when a node has come or gone.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// True once all nodes are registered.
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    /// Registers all nodes and keeps their leases until it is told to stop; then the leases run out.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let work = async {
            let namespace = Typed::<Namespace>::new(NAMESPACE, NamespaceSpec::default());
            // It may be there; whether it is shows with the first lease.
            self.client.api::<Namespace>().create(&namespace, &WriteOptions::default()).await.ok();
            stream::iter(&self.hosts).for_each_concurrent(REGISTERING_MAX, |host| self.enlist(host)).await;
            tracing::info!(nodes = self.hosts.len(), "all simulated nodes are registered");
            self.ready.send_replace(true);
        };
        let keep = async {
            let streams = self.hosts.chunks(NODES_PER_STREAM).map(|hosts| self.keep(hosts));
            futures::future::join_all(streams).await;
        };
        stop.run_until_cancelled(async { tokio::join!(work, keep) }).await;
    }

    /// Takes a node's lease and registers it, however often that fails.
    async fn enlist(&self, host: &Host) {
        loop {
            let options = AcquireOptions {
                namespace: NAMESPACE.to_owned(),
                lease: lease_name(&host.name),
                holder: self.holder.clone(),
                ttl: Some(self.ttl),
                wait: Duration::from_secs(10),
                ..AcquireOptions::default()
            };
            match self.client.leases().acquire(&options).await {
                Ok(acquired) if acquired.acquired => {
                    let client = self.client.with_fence(acquired.fence.clone());
                    let now = self.clock.now().wall;
                    match host.register(&client, &acquired.fence, Pressure::default(), true, now).await {
                        Ok(_) => {
                            self.held.write().insert(host.name.clone(), acquired.fence);
                            self.changed.notify_one();
                            return;
                        }
                        Err(error) => tracing::warn!(node = host.name, %error, "a node cannot be registered"),
                    }
                }
                Ok(other) => {
                    tracing::warn!(node = host.name, holder = other.holder, "somebody else has its lease")
                }
                Err(error) => tracing::warn!(node = host.name, %error, "a lease cannot be taken"),
            }
            sleep(TRY_AGAIN).await;
        }
    }

    /// Keeps the leases of some nodes, in rounds.
    async fn keep(&self, hosts: &[Host]) {
        let mut stream: Option<KeepAlive> = None;
        let nothing = BTreeMap::new();
        loop {
            let round = Instant::now();
            for host in hosts {
                let Some((fence, _)) = self.held(&host.name) else { continue };
                if stream.is_none() {
                    stream = self.client.leases().keep_alive().await.ok();
                }
                let Some(open) = &mut stream else {
                    sleep(TRY_AGAIN).await;
                    continue;
                };
                match open.keep(&fence, &self.holder, &nothing).await {
                    Ok(kept) if kept.held => {}
                    Ok(_) => {
                        tracing::warn!(node = host.name, "its lease is lost");
                        self.held.write().remove(&host.name);
                        self.enlist(host).await;
                    }
                    Err(error) => {
                        tracing::warn!(node = host.name, %error, "a lease cannot be renewed");
                        stream = None;
                    }
                }
            }
            sleep_until(round + self.ttl / RENEWALS).await;
        }
    }
}
