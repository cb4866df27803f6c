//! A door: a listener that lets in so many connections at a time and closes the rest.
//!
//! Every connection takes a file descriptor, and a node that has none left cannot write its log. So each door has its
//! share of what the process may open (`Shares`), and the log, the tables and our own connections keep theirs. Whoever
//! finds no place is closed at once, which is counted, and said in the log once in a while. One address has three quarters
//! of a door at most: a connection costs whoever opens it next to nothing, and they need not say who they are. Whoever is let in
//! and says nothing does not keep the place.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{Stream, stream};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use setpoint_access::{FlowKey, Full, Share, Tally, TallyOptions};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep, sleep};
use tonic::transport::server::{Connected, TcpConnectInfo};

/// Descriptors that are never a connection's: the log, some hundred table files and a checkpoint of them. A larger
/// database has more, so an eighth of all is kept on top.
const KEPT: u64 = 256;
/// Less is not enough to serve anybody.
const DESCRIPTORS_MIN: u64 = 512;
/// Nobody has so many connections.
const DESCRIPTORS_MAX: u64 = 1 << 20;
/// The same complaint is not made again for so long.
const TOLD_FOR: Duration = Duration::from_secs(10);
/// How long a connection may take to begin to speak, and to agree on its keys where it is encrypted. A far client on a bad line
/// takes two seconds.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// What begins every connection of HTTP/2 is so long, and no hello of TLS is shorter.
const GREETING_BYTES: usize = 24;
/// The shortest request of HTTP/1 begins with `GET / HTTP/1.1`.
const HTTP_GREETING_BYTES: usize = 14;
/// What we say in turns before a connection is encrypted: our part of the agreement on keys, and then that it stands, with the
/// settings of HTTP/2. A client that goes on has settings to acknowledge. (One that has to say hello twice is believed a turn early.)
const HANDSHAKE_TURNS: usize = 2;
/// Between two attempts while the system can open nothing.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, thiserror::Error)]
#[error(
    "this process may open only {limit} files and connections, a node needs {DESCRIPTORS_MIN} at least; raise the limit \
     (ulimit -n, or LimitNOFILE for systemd)"
)]
pub struct TooFew {
    limit: u64,
}

/// How many connections each door lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    pub clients: usize,
    pub peers: usize,
    pub http: usize,
}

impl Shares {
    /// Of as many descriptors as the process can get.
    pub fn claim() -> Result<Self, TooFew> {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
            tracing::warn!(%error, "the limit on open files cannot be raised; it stays as it is");
        }
        Self::of(getrlimit(Resource::Nofile).current.unwrap_or(DESCRIPTORS_MAX))
    }

    fn of(limit: u64) -> Result<Self, TooFew> {
        if limit < DESCRIPTORS_MIN {
            return Err(TooFew { limit });
        }
        let limit = limit.min(DESCRIPTORS_MAX);
        let all = usize::try_from(limit - KEPT - limit / 8).unwrap_or(usize::MAX);
        // Peers have a few connections each; scrapers and health checks come one at a time.
        let (peers, http) = ((all / 8).clamp(64, 1024), (all / 16).clamp(32, 512));
        Ok(Self { clients: all - peers - http, peers, http })
    }
}

/// Connections that found no place, by door.
#[derive(Clone, Default)]
pub struct Refusals(Family<[(&'static str, &'static str); 1], Counter>);

impl Refusals {
    pub fn register(&self, registry: &mut Registry) {
        let help = "Connections closed at once because there were too many, by listener";
        registry.register("connections_refused", help, self.0.clone());
    }
}

pub struct Door {
    name: &'static str,
    socket: TcpListener,
    places: Tally,
    refused: Counter,
    told: Option<Instant>,
    /// [`HANDSHAKE_MAX`], but for tests.
    patience: Duration,
}

impl Door {
    pub fn new(name: &'static str, socket: TcpListener, size: usize, refusals: &Refusals) -> Self {
        let refused = refusals.0.get_or_create(&[("listener", name)]).clone();
        let places = Tally::new(TallyOptions { client_max: size - size / 4, max: size });
        Self { name, socket, places, refused, told: None, patience: HANDSHAKE_MAX }
    }

    /// The next connection that finds a place.
    pub async fn next(&mut self, asked: Asked) -> (Guest, SocketAddr) {
        loop {
            let (socket, address) = match self.socket.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    if self.is_news() {
                        tracing::warn!(listener = self.name, %error, "a connection cannot be accepted");
                    }
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let mut place = self.places.share(FlowKey::of(None, Some(address.ip())));
            match place.grow() {
                Ok(()) => {
                    let until = Box::pin(sleep(self.patience));
                    let greeting = Some(Greeting { missing: asked, answered: false, until });
                    return (Guest { socket, greeting, _place: place }, address);
                }
                Err(full) => {
                    self.refused.inc();
                    if self.is_news() {
                        self.tell(full, address);
                    }
                }
            }
        }
    }

    fn tell(&self, full: Full, from: SocketAddr) {
        let (whose, connections) = match full {
            Full::Client(connections) => ("this address", connections),
            Full::Node(connections) => ("all", connections),
        };
        tracing::warn!(
            listener = self.name, %from, whose, connections,
            "too many connections; further ones are closed (raise the limit on open files: ulimit -n)"
        );
    }

    /// Without waiting to fill packets: that would cost a conversation of small messages tens of milliseconds.
    pub fn guests(self, encrypted: bool) -> impl Stream<Item = io::Result<Guest>> {
        let asked = Asked { bytes: GREETING_BYTES, turns: if encrypted { HANDSHAKE_TURNS } else { 0 } };
        stream::unfold(self, move |mut door| async move {
            let (guest, _) = door.next(asked).await;
            if let Err(error) = guest.socket.set_nodelay(true) {
                tracing::debug!(%error, "a connection waits to fill its packets");
            }
            Some((Ok(guest), door))
        })
    }

    fn is_news(&mut self) -> bool {
        let now = Instant::now();
        let news = self.told.is_none_or(|told| now.saturating_duration_since(told) >= TOLD_FOR);
        if news {
            self.told = Some(now);
        }
        news
    }
}

impl axum::serve::Listener for Door {
    type Io = Guest;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Guest, SocketAddr) {
        self.next(Asked { bytes: HTTP_GREETING_BYTES, turns: 0 }).await
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// A connection, with its place for as long as it lasts.
pub struct Guest {
    socket: TcpStream,
    /// None once it has spoken.
    greeting: Option<Greeting>,
    _place: Share,
}

/// What is asked of a connection at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    pub bytes: usize,
    /// How often it has to go on after something we said. Its hello alone has all the bytes of an encrypted connection, and it
    /// could be silent from then on.
    pub turns: usize,
}

/// What a connection has to say before its time is up.
struct Greeting {
    missing: Asked,
    /// We said something since it last did.
    answered: bool,
    until: Pin<Box<Sleep>>,
}

impl Greeting {
    /// True when nothing is missing any more.
    fn hear(&mut self, bytes: usize) -> bool {
        let Asked { bytes: missing, turns } = &mut self.missing;
        *missing = missing.saturating_sub(bytes);
        if bytes > 0 && std::mem::take(&mut self.answered) {
            *turns = turns.saturating_sub(1);
        }
        (*missing, *turns) == (0, 0)
    }
}

impl Connected for Guest {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.socket.connect_info()
    }
}

impl AsyncRead for Guest {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(cx, buffer);
        let Some(greeting) = &mut self.greeting else { return read };
        if greeting.hear(buffer.filled().len() - before) {
            self.greeting = None;
        } else if read.is_pending() && greeting.until.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl Guest {
    /// Takes note of what we say.
    fn said(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let (Some(greeting), Poll::Ready(Ok(1..))) = (&mut self.greeting, &written) {
            greeting.answered = true;
        }
        written
    }
}

impl AsyncWrite for Guest {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.said(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, pieces);
        self.said(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const ANY: Asked = Asked { bytes: 1, turns: 0 };
    const PLAIN: Asked = Asked { bytes: GREETING_BYTES, turns: 0 };
    const ENCRYPTED: Asked = Asked { bytes: GREETING_BYTES, turns: HANDSHAKE_TURNS };

    #[test]
    fn every_door_has_a_share_and_something_is_kept() {
        assert!(Shares::of(DESCRIPTORS_MIN - 1).is_err());
        for limit in [DESCRIPTORS_MIN, 1024, 65_536, 1 << 20, u64::MAX] {
            let Shares { clients, peers, http } = Shares::of(limit).expect("enough");
            assert!(clients >= 64 && peers >= 64 && http >= 32, "{limit}");
            assert!((clients + peers + http) as u64 + KEPT <= limit, "{limit}");
        }
    }

    #[tokio::test]
    async fn who_finds_no_place_is_closed_and_a_place_that_is_left_is_taken_again() {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let (address, refusals) = (socket.local_addr().expect("an address"), Refusals::default());
        let mut door = Door::new("client", socket, 1, &refusals);
        let first = TcpStream::connect(address).await.expect("connected");
        let (guest, _) = door.next(ANY).await;
        let mut second = TcpStream::connect(address).await.expect("connected");
        let waiting = tokio::spawn(async move { door.next(ANY).await });
        assert_eq!(second.read(&mut [0]).await.unwrap_or(0), 0, "it is closed");
        assert_eq!(refusals.0.get_or_create(&[("listener", "client")]).get(), 1);
        drop((first, guest));
        let _third = TcpStream::connect(address).await.expect("connected");
        waiting.await.expect("the door goes on");
    }

    #[tokio::test]
    async fn who_says_nothing_does_not_stay_and_who_has_spoken_does() {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = socket.local_addr().expect("an address");
        let mut door = Door::new("client", socket, 8, &Refusals::default());
        door.patience = Duration::from_millis(20);
        let mut connection = TcpStream::connect(address).await.expect("connected");
        connection.write_all(&[b'P'; GREETING_BYTES - 1]).await.expect("sent");
        let (mut guest, _) = door.next(PLAIN).await;
        guest.read_exact(&mut [0; GREETING_BYTES - 1]).await.expect("received");
        let silence = guest.read(&mut [0]).await.expect_err("its time is up");
        assert_eq!(silence.kind(), io::ErrorKind::TimedOut);

        let mut connection = TcpStream::connect(address).await.expect("connected");
        connection.write_all(&[b'P'; GREETING_BYTES]).await.expect("sent");
        let (mut guest, _) = door.next(PLAIN).await;
        guest.read_exact(&mut [0; GREETING_BYTES]).await.expect("received");
        assert!(guest.greeting.is_none(), "nothing is asked of it any more");
    }

    #[tokio::test]
    async fn who_is_silent_after_a_handshake_does_not_stay_and_who_goes_on_does() {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = socket.local_addr().expect("an address");
        let mut door = Door::new("client", socket, 8, &Refusals::default());
        for goes_on in [false, true] {
            door.patience = Duration::from_secs(if goes_on { 60 } else { 1 });
            let mut connection = TcpStream::connect(address).await.expect("connected");
            let (mut guest, _) = door.next(ENCRYPTED).await;
            // A hello, in two pieces, and the end of the handshake.
            for said in [&[22; GREETING_BYTES][..], &[22; 200], &[23; 80]] {
                connection.write_all(said).await.expect("sent");
                guest.read_exact(&mut vec![0; said.len()]).await.expect("received");
                assert!(guest.greeting.is_some(), "nothing but a handshake so far");
                if said.len() != GREETING_BYTES {
                    guest.write_all(b"!").await.expect("answered");
                }
            }
            if goes_on {
                connection.write_all(b"?").await.expect("sent");
                guest.read_exact(&mut [0]).await.expect("received");
                assert!(guest.greeting.is_none(), "nothing is asked of it any more");
            } else {
                let silence = guest.read(&mut [0]).await.expect_err("its time is up");
                assert_eq!(silence.kind(), io::ErrorKind::TimedOut);
            }
        }
    }

    #[tokio::test]
    async fn one_address_leaves_a_quarter_of_the_door_to_the_others() {
        let socket = TcpListener::bind("0.0.0.0:0").await.expect("a free port");
        let (port, refusals) = (socket.local_addr().expect("an address").port(), Refusals::default());
        let mut door = Door::new("client", socket, 4, &refusals);
        let (mut connections, mut guests) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            connections.push(TcpStream::connect(("127.0.0.1", port)).await.expect("connected"));
            guests.push(door.next(ANY).await);
        }
        let mut fourth = TcpStream::connect(("127.0.0.1", port)).await.expect("connected");
        let waiting = tokio::spawn(async move { door.next(ANY).await });
        assert_eq!(fourth.read(&mut [0]).await.unwrap_or(0), 0, "it is closed");
        let other = tokio::net::TcpSocket::new_v4().expect("a socket");
        other.bind("127.0.0.2:0".parse().expect("an address")).expect("loopback has many");
        let _connected = other.connect(([127, 0, 0, 1], port).into()).await.expect("connected");
        let (_, from) = waiting.await.expect("the door goes on");
        assert_eq!(from.ip().to_string(), "127.0.0.2");
    }
}
