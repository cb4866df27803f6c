//! A cluster of one in the process of the test.
//!
//! - [`log`]: the store, and a log that is only an order
//! - [`time_keeper`]: who counts the time of leases
//! - [`services`]: the server's own services over both
//!
//! Not here: faults (`fault`), and what is asserted (`history`, `sweep`).

mod log;
mod services;
mod time_keeper;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_access::Principal;
use setpoint_client::{Client, ConnectError, Connector, Endpoint, Entropy, Settings, Wire};
use setpoint_consensus::Clock;
use setpoint_store::command::Command;
use setpoint_types::{Revision, Timestamp};
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::body::Body;
use tower::ServiceExt;

pub(crate) use log::Log;

use crate::clock::WallClock;
use crate::history::{History, Reader, State};

/// A store with the real semantics, in this process: the server's own services over its own state machine, with tables in
/// memory and without a cluster. Cheap to clone; clones are the same world.
///
/// **Guarantees**
/// - What a client is answered is what a server of this version answers: objects, admission, field ownership, watches,
///   transactions, ledgers, leases, operation ids and fences are the server's code.
/// - Time is tokio's clock, and the date follows it ([`World::now`]). Hold it (`start_paused`), and leases last as long as the test
///   says.
/// - The same seed gives the same uids, generated names and operation ids, in a runtime of one thread.
///
/// **Assumes** a runtime of tokio with time, which outlives it.
///
/// **Does not promise** what only a cluster has: elections, lagging nodes, disks. Nothing is refused for load, or for lack of permission unless it
/// is [`World::guarded`]. No controller runs in it: owned objects are not collected, and nobody places anything.
#[derive(Clone)]
pub struct World {
    inner: Arc<Inner>,
}

struct Inner {
    log: Arc<Log>,
    wire: Wire,
    seed: u64,
    clients: AtomicU64,
    reader: Mutex<Reader>,
    _stop: DropGuard,
}

impl World {
    pub fn new() -> Self {
        Self::seeded(0)
    }

    /// Another seed gives other ids and names.
    pub fn seeded(seed: u64) -> Self {
        Self::start(seed, false)
    }

    /// One in which everybody may do what roles allow, and only that; whoever is in `setpoint:admins` everything.
    pub fn guarded() -> Self {
        Self::start(0, true)
    }

    fn start(seed: u64, guarded: bool) -> Self {
        let log = Arc::new(Log::new(WallClock::start()));
        let stop = CancellationToken::new();
        let wire = services::start(&log, Entropy::seeded(seed), guarded, &stop);
        let inner = Inner {
            log,
            wire,
            seed,
            clients: AtomicU64::new(0),
            reader: Mutex::default(),
            _stop: stop.drop_guard(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// A client of nobody in particular, without faults.
    pub fn client(&self) -> Client {
        self.client_as("tester")
    }

    /// A client whose writes are stamped `user:NAME`.
    pub fn client_as(&self, name: &str) -> Client {
        self.client_over(self.wire_as(name))
    }

    /// A client over a wire to this world.
    pub(crate) fn client_over(&self, wire: Wire) -> Client {
        let number = self.inner.clients.fetch_add(1, Ordering::Relaxed) + 1;
        let entropy = Entropy::seeded(self.inner.seed.wrapping_mul(0x1_0001).wrapping_add(number));
        let settings = Settings::new(vec!["world".parse().expect("a host")]);
        Client::with_seams(settings, &Wired(wire), entropy).expect("the settings are good")
    }

    /// The way to this world for somebody of this name, in these groups: for clients that are made elsewhere.
    pub fn connector_as(&self, name: &str, groups: &[&str]) -> impl Connector + use<> {
        Wired(self.wire_of(name, groups))
    }

    /// Requests as somebody of this name.
    pub(crate) fn wire_as(&self, name: &str) -> Wire {
        self.wire_of(name, &[])
    }

    fn wire_of(&self, name: &str, groups: &[&str]) -> Wire {
        let principal =
            Principal::new(name, groups.iter().copied()).expect("names of letters, digits and dashes");
        Wire::new(self.inner.wire.clone().map_request(move |mut request: http::Request<Body>| {
            request.extensions_mut().insert(principal.clone());
            request
        }))
    }

    pub(crate) fn log(&self) -> &Arc<Log> {
        &self.inner.log
    }

    /// The date, as it is stamped on what is written.
    pub fn now(&self) -> Timestamp {
        self.inner.log.clock.now()
    }

    /// The date jumps forward. Timers do not notice.
    pub fn jump(&self, by: Duration) {
        self.inner.log.clock.jump(by);
    }

    /// The date jumps back. Timers do not notice.
    pub fn jump_back(&self, by: Duration) {
        self.inner.log.clock.jump_back(by);
    }

    /// Since the world began.
    pub fn elapsed(&self) -> Duration {
        self.inner.log.clock.elapsed()
    }

    /// Lets time pass, and everything happen that happens in it. Where the clock is held this takes no time.
    pub async fn pass(&self, time: Duration) {
        sleep(time).await;
    }

    /// Of the newest change.
    pub fn revision(&self) -> Revision {
        self.inner.log.store.revision()
    }

    /// Forgets all history: what was seen before cannot be gone on with, and must be read anew.
    pub fn compact(&self) {
        let revision = self.revision();
        if self.inner.log.store.compacted() < revision.wire() {
            let compacted = self.inner.log.apply(Command::Compact { revision: revision.wire() });
            compacted.expect("the newest revision can be compacted");
        }
    }

    /// Everything that ever happened, also what is compacted.
    pub fn history(&self) -> History {
        self.read_on(Reader::history)
    }

    /// All objects as they are now.
    pub fn state(&self) -> State {
        self.read_on(Reader::state)
    }

    /// How many commits were refused because the fence they carried was no longer in force.
    pub fn fenced(&self) -> u64 {
        self.inner.log.fenced()
    }

    fn read_on<T>(&self, answer: impl FnOnce(&Reader) -> T) -> T {
        let mut reader = self.inner.reader.lock();
        let news = self.inner.log.journal_from(reader.read());
        reader.read_on(&news);
        answer(&reader)
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

/// Whatever the address, it is this world.
impl Connector for World {
    fn connect(&self, endpoint: &Endpoint) -> Result<Wire, ConnectError> {
        Wired(self.wire_as("tester")).connect(endpoint)
    }
}

/// One wire for all addresses.
struct Wired(Wire);

impl Connector for Wired {
    fn connect(&self, _: &Endpoint) -> Result<Wire, ConnectError> {
        Ok(self.0.clone())
    }
}
