//! A node without a cluster: commits are applied by whoever makes them, and the node counts the time of leases itself, with
//! the leader's own clockwork.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use setpoint_access::Authorizer;
use setpoint_apiserver::access::Roles;
use setpoint_apiserver::coordination::{CoordinationLimits, Coordinator, Keeper, expiry};
use setpoint_apiserver::lease::{Deadlines, LeaseTime, Lifetime, Observed};
use setpoint_apiserver::objects::definitions::Definitions;
use setpoint_apiserver::objects::write::{CommitError, Commits, Turns, WriteLimits, Writer};
use setpoint_apiserver::objects::{Barrier, Catalog, Index, ReadLimits, Reader, Refusal};
use setpoint_apiserver::replica::{Halt, ProposeError};
use setpoint_apiserver::watch::Hub;
use setpoint_consensus::Clock;
use setpoint_store::command::{Command, Proposal, ProposalId};
use setpoint_store::commit::Commit;
use setpoint_store::{Body, Committed, Entry, MemoryEngine, Position, Rejection, Response, Store};
use setpoint_types::{LeaseId, NodeId, Timestamp};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const TERM: u64 = 1;

/// The log of one, the clock of all.
pub struct Local {
    pub store: Arc<Store>,
    hub: Arc<Hub>,
    log_index: Mutex<u64>,
    started: Instant,
    deadlines: Mutex<Deadlines>,
    observed: Mutex<std::collections::BTreeMap<LeaseId, Observed>>,
    /// Expiries come as those of ordinary leases do, without the object.
    pub plain_expiry: AtomicBool,
}

impl Local {
    pub fn apply(&self, command: Command) -> Result<Response, Rejection> {
        let mut index = self.log_index.lock();
        *index += 1;
        let id = ProposalId { node: NodeId(1), sequence: *index };
        let commands = vec![Proposal { id, command }.encode()];
        let body = Body::Commands { stamp: self.now(), commands };
        let entry = Entry { position: Position { term: TERM, index: *index }, body };
        let outcome = self.store.apply(&[entry], NodeId(1)).expect("applies");
        self.hub.publish(outcome.changes);
        outcome.verdicts.into_iter().next().expect("a verdict").1
    }

    /// Ends the leases whose time is up, as the leader does at every tick.
    pub fn expire(&self) {
        let expired = {
            let mut deadlines = self.deadlines.lock();
            self.follow(&mut deadlines);
            deadlines.take_expired(Instant::now(), 100)
        };
        for lease in expired.into_iter().map(|it| it.id) {
            let observed = self.observed.lock().get(&lease).cloned().unwrap_or_default();
            let commit = expiry::commit(&self.store, lease, TERM, self.now(), observed);
            let command = match commit.filter(|_| !self.plain_expiry.load(Ordering::Relaxed)) {
                Some(commit) => Command::Commit(Arc::new(commit)),
                None => Command::LeaseExpire { lease, term: TERM },
            };
            self.apply(command).expect("nobody else writes");
        }
    }

    fn follow(&self, deadlines: &mut Deadlines) {
        deadlines.follow(&self.store.granted_leases().leases, Instant::now(), TERM, Duration::ZERO);
    }
}

impl Clock for Local {
    fn now(&self) -> Timestamp {
        let passed = Instant::now().saturating_duration_since(self.started);
        Timestamp(1_000_000 + u64::try_from(passed.as_millis()).expect("a short test"))
    }
}

impl Commits for Local {
    fn commit(&self, commit: Arc<Commit>, _: usize) -> BoxFuture<'_, Result<Committed, CommitError>> {
        let verdict = match self.apply(Command::Commit(commit)) {
            Ok(Response::Commit(committed)) => Ok(committed),
            Ok(other) => panic!("not the verdict of a commit: {other:?}"),
            Err(rejection) => Err(ProposeError::Rejected(rejection).into()),
        };
        Box::pin(std::future::ready(verdict))
    }
}

impl Keeper for Local {
    fn granted(&self, ttl: i64) -> i64 {
        ttl.max(2)
    }

    fn renew(&self, id: LeaseId, observed: Observed) -> BoxFuture<'_, Result<i64, Refusal>> {
        let mut deadlines = self.deadlines.lock();
        self.follow(&mut deadlines);
        let ttl = deadlines.renew(id, Instant::now());
        if ttl.is_some() && !observed.is_empty() {
            self.observed.lock().insert(id, observed);
        }
        let seconds = ttl.map_or(0, |ttl| ttl.as_secs() as i64);
        Box::pin(std::future::ready(Ok(seconds)))
    }

    fn times(&self, ids: Vec<LeaseId>) -> BoxFuture<'_, Result<Vec<LeaseTime>, Refusal>> {
        let mut deadlines = self.deadlines.lock();
        self.follow(&mut deadlines);
        let time = |id: LeaseId| LeaseTime {
            remaining: deadlines.lifetime(id, Instant::now()).map(|lifetime| match lifetime {
                Lifetime::Remaining(left) => left,
                Lifetime::Expiring => Duration::ZERO,
            }),
            observed: self.observed.lock().get(&id).cloned().unwrap_or_default(),
        };
        Box::pin(std::future::ready(Ok(ids.into_iter().map(time).collect())))
    }
}

struct Passed;

impl Barrier for Passed {
    fn pass(&self) -> BoxFuture<'_, Result<(), Refusal>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn is_led(&self) -> bool {
        true
    }
}

pub struct Node {
    pub coordinator: Coordinator,
    pub writer: Writer,
    pub local: Arc<Local>,
}

impl Node {
    /// To be made within a runtime whose time is paused.
    pub fn new() -> Self {
        Self::with(CoordinationLimits { queue: 3, ..CoordinationLimits::default() })
    }

    pub fn with(limits: CoordinationLimits) -> Self {
        let store = Arc::new(Store::open(Arc::new(MemoryEngine::new())).expect("an empty store opens"));
        let hub = Arc::new(Hub::new(store.revision(), 1 << 20));
        let catalog = Arc::new(Catalog::built_in());
        let reader = Reader {
            definitions: Arc::new(Definitions::new(store.clone(), catalog.clone())),
            store: store.clone(),
            hub: hub.clone(),
            barrier: Arc::new(Passed),
            catalog,
            index: Arc::new(Index::new(1 << 20)),
            limits: ReadLimits::default(),
            load: Default::default(),
            watches_overtaken: Default::default(),
            halt: Halt::new(CancellationToken::new()),
        };
        let local = Arc::new(Local {
            store,
            hub,
            log_index: Mutex::new(0),
            started: Instant::now(),
            deadlines: Mutex::default(),
            observed: Mutex::default(),
            plain_expiry: AtomicBool::new(false),
        });
        let drawn = AtomicU64::new(1);
        let draw = move || {
            let number = u128::from(drawn.fetch_add(1, Ordering::Relaxed));
            number << 66 | number
        };
        let roles = Arc::new(Roles::new(reader.store.clone(), Arc::new(Authorizer::off())));
        let writer = Writer {
            roles,
            reader,
            commits: local.clone(),
            clock: local.clone(),
            turns: Arc::new(Turns::new(0)),
            draw: Arc::new(draw),
            limits: WriteLimits::default(),
        };
        let stopping = CancellationToken::new();
        let coordinator = Coordinator::new(writer.clone(), local.clone(), limits, stopping);
        Self { coordinator, writer, local }
    }

    /// Lets time pass, with the leader's ticks.
    pub async fn advance(&self, millis: u64) {
        const TICK: u64 = 250;
        let end = Instant::now() + Duration::from_millis(millis);
        loop {
            self.local.expire();
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            tokio::time::sleep(left.min(Duration::from_millis(TICK))).await;
        }
        settle().await;
    }
}

/// Lets everything that can go on do so: the runtime's time moves, by itself, once all tasks and threads wait.
pub async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
