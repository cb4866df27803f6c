//! The network between the nodes of a cluster, with a switch on every directed link.
//!
//! Each node is known to the others by the address of a proxy in front of it. A proxy asks the kernel which node a
//! connection comes from, so what one node sends to another can be held back, delayed, slowed or cut, and nothing else
//! is touched. A held-back link loses nothing: as with a broken cable under TCP, what was sent arrives once it is whole
//! again, unless somebody gave up meanwhile.
//!
//! Not here: clients, which reach the nodes directly.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::socket;

/// What happens to what one node sends to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Pass,
    /// Nothing arrives; the sender is not told.
    Hold,
    Delay(Duration),
    /// Connections are broken, and so is every new one.
    Reset,
    /// Bytes per second.
    Throttle(u32),
}

/// Bytes taken off a connection at a time.
const CHUNK: usize = 16 << 10;
const LOOKS: usize = 10;
const BETWEEN_LOOKS: Duration = Duration::from_millis(30);

type Links = Arc<Vec<Vec<watch::Sender<Link>>>>;

/// Proxies for the nodes of one cluster. Everything ends when it is dropped.
pub struct Mesh {
    fronts: Vec<SocketAddr>,
    links: Links,
    pids: Arc<Mutex<Vec<Option<u32>>>>,
    waiting: Vec<TcpListener>,
    proxies: JoinSet<()>,
}

impl Mesh {
    /// Proxies for so many nodes. They hold connections until [`Mesh::serve`] says where the nodes are.
    pub async fn bind(nodes: usize) -> std::io::Result<Self> {
        let mut waiting = Vec::new();
        for _ in 0..nodes {
            waiting.push(TcpListener::bind("127.0.0.1:0").await?);
        }
        let fronts = waiting.iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?;
        let row = || (0..nodes).map(|_| watch::Sender::new(Link::Pass)).collect();
        let links = Arc::new((0..nodes).map(|_| row()).collect());
        Ok(Self {
            fronts,
            links,
            pids: Arc::new(Mutex::new(vec![None; nodes])),
            waiting,
            proxies: JoinSet::new(),
        })
    }

    /// The addresses the nodes know each other by.
    pub fn fronts(&self) -> Vec<String> {
        self.fronts.iter().map(SocketAddr::to_string).collect()
    }

    /// Starts to pass connections on to the nodes' own addresses.
    pub fn serve(&mut self, targets: &[String]) {
        for (to, (listener, target)) in self.waiting.drain(..).zip(targets).enumerate() {
            let (links, pids) = (self.links.clone(), self.pids.clone());
            self.proxies.spawn(front(listener, target.clone(), to, links, pids));
        }
    }

    /// The processes the nodes run in now.
    pub fn note_pids(&self, pids: Vec<Option<u32>>) {
        *self.pids.lock() = pids;
    }

    pub fn set(&self, from: usize, to: usize, link: Link) {
        self.links[from][to].send_replace(link);
    }

    /// Every link becomes like this one.
    pub fn set_all(&self, link: Link) {
        for_pairs(self.links.len(), |from, to| self.set(from, to, link));
    }

    pub fn heal(&self) {
        self.set_all(Link::Pass);
    }

    /// Separates these nodes from all others, in both directions.
    pub fn split(&self, side: &[usize]) {
        for_pairs(self.links.len(), |from, to| {
            if side.contains(&from) != side.contains(&to) {
                self.set(from, to, Link::Hold);
            }
        });
    }

    /// The node hears nobody, but is heard.
    pub fn deafen(&self, node: usize) {
        for_pairs(self.links.len(), |from, to| {
            if to == node {
                self.set(from, to, Link::Hold);
            }
        });
    }

    /// Nobody hears the node, but it hears all.
    pub fn mute(&self, node: usize) {
        for_pairs(self.links.len(), |from, to| {
            if from == node {
                self.set(from, to, Link::Hold);
            }
        });
    }

    /// Cuts one pair in both directions; whoever else there is reaches both.
    pub fn cut(&self, one: usize, other: usize) {
        self.set(one, other, Link::Hold);
        self.set(other, one, Link::Hold);
    }
}

fn for_pairs(nodes: usize, mut act: impl FnMut(usize, usize)) {
    for from in 0..nodes {
        for to in (0..nodes).filter(|to| *to != from) {
            act(from, to);
        }
    }
}

/// Passes on whatever is dialled to one node.
async fn front(
    listener: TcpListener,
    target: String,
    to: usize,
    links: Links,
    pids: Arc<Mutex<Vec<Option<u32>>>>,
) {
    let Ok(here) = listener.local_addr() else { return };
    let mut connections = JoinSet::new();
    while let Ok((inbound, source)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let (links, pids) = (links.clone(), pids.clone());
        let target = target.clone();
        connections.spawn(async move {
            let _ = inbound.set_nodelay(true);
            let pass = watch::Sender::new(Link::Pass);
            let (there, back) = match caller(source, here, &pids).await {
                Some(from) if from < links.len() => {
                    (links[from][to].subscribe(), links[to][from].subscribe())
                }
                _ => (pass.subscribe(), pass.subscribe()),
            };
            connection(inbound, &target, there, back).await;
        });
    }
}

/// Which node dialled. A node may dial before its process is noted, so there are several looks; whoever remains
/// unknown is no part of the mesh, like a node that joined later.
async fn caller(source: SocketAddr, here: SocketAddr, pids: &Mutex<Vec<Option<u32>>>) -> Option<usize> {
    for _ in 0..LOOKS {
        let known = pids.lock().clone();
        if let Some(from) = socket::owner(source, here, &known) {
            return Some(from);
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    None
}

/// Passes a connection on, until it breaks or a link breaks it.
pub(crate) async fn connection(
    inbound: TcpStream,
    target: &str,
    mut there: watch::Receiver<Link>,
    back: watch::Receiver<Link>,
) {
    // A connection is only made once both directions work.
    if !open(&mut there).await || !open(&mut back.clone()).await {
        return;
    }
    let Ok(outbound) = TcpStream::connect(target).await else { return };
    let _ = outbound.set_nodelay(true);
    let (inbound_read, inbound_write) = inbound.into_split();
    let (outbound_read, outbound_write) = outbound.into_split();
    // Dropping both halves of both ends is what tells the other side.
    tokio::select! {
        () = pump(inbound_read, outbound_write, there) => (),
        () = pump(outbound_read, inbound_write, back) => (),
    }
}

/// Waits until something may pass. False if the link breaks connections.
async fn open(link: &mut watch::Receiver<Link>) -> bool {
    let state = link.wait_for(|link| *link != Link::Hold).await.map(|link| *link);
    state.is_ok_and(|state| state != Link::Reset)
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut link: watch::Receiver<Link>) {
    let mut buffer = vec![0; CHUNK];
    loop {
        if !open(&mut link).await {
            return;
        }
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            changed = link.changed() => if changed.is_ok() { continue } else { return },
        };
        let Ok(length @ 1..) = read else { return };
        // What was taken off while the link broke is held like the rest.
        if !open(&mut link).await {
            return;
        }
        let state = *link.borrow();
        match state {
            Link::Delay(delay) => tokio::time::sleep(delay).await,
            Link::Throttle(rate) => {
                tokio::time::sleep(Duration::from_secs_f64(length as f64 / f64::from(rate.max(1)))).await;
            }
            Link::Pass | Link::Hold | Link::Reset => {}
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One node that echoes; we dial it as another.
    async fn echo() -> (Mesh, TcpStream) {
        let echo = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let target = echo.local_addr().expect("bound").to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = echo.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                });
            }
        });
        let mut mesh = Mesh::bind(2).await.expect("free ports");
        mesh.note_pids(vec![None, Some(std::process::id())]);
        mesh.serve(&[target.clone(), target]);
        let client = TcpStream::connect(mesh.fronts()[0].clone()).await.expect("the proxy accepts");
        (mesh, client)
    }

    async fn answer(client: &mut TcpStream) -> Option<u8> {
        let mut byte = [0];
        let read = tokio::time::timeout(Duration::from_millis(300), client.read_exact(&mut byte)).await;
        read.ok().and_then(Result::ok).map(|_| byte[0])
    }

    #[tokio::test]
    async fn each_direction_is_held_and_released_by_itself() {
        let (mesh, mut client) = echo().await;
        client.write_all(b"a").await.expect("sent");
        assert_eq!(answer(&mut client).await, Some(b'a'));
        mesh.set(0, 1, Link::Hold);
        client.write_all(b"b").await.expect("sent");
        assert_eq!(answer(&mut client).await, None, "the answer is held");
        mesh.set(1, 0, Link::Hold);
        client.write_all(b"c").await.expect("sent");
        mesh.set(0, 1, Link::Pass);
        assert_eq!(answer(&mut client).await, Some(b'b'), "nothing is lost");
        assert_eq!(answer(&mut client).await, None, "the request is held");
        mesh.heal();
        assert_eq!(answer(&mut client).await, Some(b'c'));
    }

    #[tokio::test]
    async fn a_reset_link_breaks_connections() {
        let (mesh, mut client) = echo().await;
        client.write_all(b"a").await.expect("sent");
        assert_eq!(answer(&mut client).await, Some(b'a'));
        mesh.set(1, 0, Link::Reset);
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(10), client.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "the connection ends");
    }
}
