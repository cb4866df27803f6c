//! A node without a cluster: a commit is applied to the store by whoever makes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;
use setpoint_access::Authorizer;
use setpoint_api::setpoint::v1 as pb;
use setpoint_apiserver::access::Roles;
use setpoint_apiserver::coordination::Keeper;
use setpoint_apiserver::lease::{LeaseTime, Observed};
use setpoint_apiserver::objects::definitions::Definitions;
use setpoint_apiserver::objects::write::{CommitError, Commits, Turns, WriteLimits, Writer};
use setpoint_apiserver::objects::{Barrier, Catalog, Index, Kind, ReadLimits, Reader, Refusal};
use setpoint_apiserver::replica::{Halt, ProposeError};
use setpoint_apiserver::watch::Hub;
use setpoint_consensus::Clock;
use setpoint_store::command::{Command, Proposal, ProposalId};
use setpoint_store::commit::Commit;
use setpoint_store::{Body, Committed, Entry, MemoryEngine, Position, Rejection, Response, Store};
use setpoint_types::{LeaseId, NodeId, Timestamp};
use tokio_util::sync::CancellationToken;

/// The log of one, the clock of all.
pub struct Local {
    store: Arc<Store>,
    hub: Arc<Hub>,
    log_index: Mutex<u64>,
    now: AtomicU64,
}

impl Local {
    pub fn apply(&self, command: Command) -> Result<Response, Rejection> {
        let mut index = self.log_index.lock();
        *index += 1;
        let id = ProposalId { node: NodeId(1), sequence: *index };
        let commands = vec![Proposal { id, command }.encode()];
        let body = Body::Commands { stamp: self.now(), commands };
        let entry = Entry { position: Position { term: 1, index: *index }, body };
        let outcome = self.store.apply(&[entry], NodeId(1)).expect("applies");
        self.hub.publish(outcome.changes);
        outcome.verdicts.into_iter().next().expect("a verdict").1
    }

    pub fn pass_time(&self, millis: u64) {
        self.now.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for Local {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::Relaxed))
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

struct Passed;

impl Barrier for Passed {
    fn pass(&self) -> BoxFuture<'_, Result<(), Refusal>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn is_led(&self) -> bool {
        true
    }
}

/// Lists and maps of every sort.
fn thing() -> Kind {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer", "default": 1},
            "image": {"type": "string"},
            "size": {"type": "string", "x-setpoint-immutable": true},
            "zones": {"type": "array", "items": {"type": "string"}, "x-setpoint-list-type": "set"},
            "args": {"type": "array", "items": {"type": "string"}},
            "ports": {"type": "array", "x-setpoint-list-type": "map", "x-setpoint-list-map-keys": ["port"],
                "items": {"type": "object", "properties": {
                    "port": {"type": "integer"}, "name": {"type": "string"}}}},
        }},
        "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
    }});
    Kind::new(pb::KindInfo {
        kind: "Thing".to_owned(),
        plural: "things".to_owned(),
        namespaced: true,
        schema: schema.to_string().into(),
        ..pb::KindInfo::default()
    })
}

/// Holds last for ever: nobody counts their time.
impl Keeper for Local {
    fn granted(&self, ttl: i64) -> i64 {
        ttl
    }

    fn renew(&self, _: LeaseId, _: Observed) -> BoxFuture<'_, Result<i64, Refusal>> {
        Box::pin(std::future::ready(Ok(10)))
    }

    fn times(&self, ids: Vec<LeaseId>) -> BoxFuture<'_, Result<Vec<LeaseTime>, Refusal>> {
        let time = |_| LeaseTime { remaining: Some(Duration::from_secs(10)), observed: Observed::new() };
        Box::pin(std::future::ready(Ok(ids.into_iter().map(time).collect())))
    }
}

pub struct Node {
    pub writer: Writer,
    pub local: Arc<Local>,
}

impl Node {
    pub fn new() -> Self {
        Self::with(Arc::new(Authorizer::off()))
    }

    pub fn with(authorizer: Arc<Authorizer>) -> Self {
        let store = Arc::new(Store::open(Arc::new(MemoryEngine::new())).expect("an empty store opens"));
        let hub = Arc::new(Hub::new(store.revision(), 1 << 20));
        let catalog = Catalog::built_in();
        catalog.put(thing());
        let catalog = Arc::new(catalog);
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
            store: store.clone(),
            hub,
            log_index: Mutex::new(0),
            now: AtomicU64::new(1_000),
        });
        let drawn = AtomicU64::new(0);
        let roles = Arc::new(Roles::new(store.clone(), authorizer));
        let writer = Writer {
            reader,
            roles,
            commits: local.clone(),
            clock: local.clone(),
            turns: Arc::new(Turns::new(0)),
            draw: Arc::new(move || u128::from(drawn.fetch_add(1, Ordering::Relaxed))),
            limits: WriteLimits {
                object_bytes: 4_000,
                transaction_writes: 8,
                request_bytes: 9_000,
                attempts: 4,
                definitions: 6,
            },
        };
        Self { writer, local }
    }
}
