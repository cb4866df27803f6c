//! The log of one: a commit is applied by whoever makes it, at once, and everything that ever happened is kept.

use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use setpoint_apiserver::objects::write::{CommitError, Commits};
use setpoint_apiserver::objects::{Barrier, Refusal};
use setpoint_apiserver::replica::ProposeError;
use setpoint_apiserver::watch::Hub;
use setpoint_consensus::Clock;
use setpoint_store::command::{Command, Proposal, ProposalId};
use setpoint_store::commit::{Commit, Guard};
use setpoint_store::{Body, ChangeSet, Committed, Entry, MemoryEngine, Position, Rejection, Response, Store};
use setpoint_types::{NodeId, Revision};
use tokio::time::Instant;

use crate::clock::WallClock;

pub const TERM: u64 = 1;
const NODE: NodeId = NodeId(1);
/// Of the newest changes, for watches. Behind it they read history, as they do in a cluster.
const RING_BYTES: usize = 1 << 20;

/// The store, and the order in which commands reach it.
pub struct Log {
    pub store: Arc<Store>,
    pub hub: Arc<Hub>,
    pub clock: Arc<WallClock>,
    written: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    index: u64,
    /// Every revision there was, also those that are compacted.
    journal: Vec<(Instant, Arc<ChangeSet>)>,
    fenced: u64,
}

impl Log {
    pub fn new(clock: Arc<WallClock>) -> Self {
        let store = Store::open(Arc::new(MemoryEngine::new())).expect("an empty store opens");
        let hub = Hub::new(store.revision(), RING_BYTES);
        Self { store: Arc::new(store), hub: Arc::new(hub), clock, written: Mutex::default() }
    }

    pub fn apply(&self, command: Command) -> Result<Response, Rejection> {
        let mut written = self.written.lock();
        written.index += 1;
        let id = ProposalId { node: NODE, sequence: written.index };
        let body =
            Body::Commands { stamp: self.clock.now(), commands: vec![Proposal { id, command }.encode()] };
        let entry = Entry { position: Position { term: TERM, index: written.index }, body };
        let outcome = self.store.apply(&[entry], NODE).expect("memory does not fail");
        let now = Instant::now();
        written.journal.extend(outcome.changes.iter().map(|set| (now, set.clone())));
        self.hub.publish(outcome.changes);
        outcome.verdicts.into_iter().next().expect("a node is told of its own proposals").1
    }

    /// Everything but the first so many revisions.
    pub fn journal_from(&self, place: usize) -> Vec<Arc<ChangeSet>> {
        self.written.lock().journal.iter().skip(place).map(|(_, set)| set.clone()).collect()
    }

    /// How many commits were refused because of their fence.
    pub fn fenced(&self) -> u64 {
        self.written.lock().fenced
    }

    /// The newest revision of a moment.
    pub fn revision_at(&self, moment: Instant) -> Revision {
        let written = self.written.lock();
        let until = written.journal.partition_point(|(made_at, _)| *made_at <= moment);
        until.checked_sub(1).map_or(Revision::new(1), |last| written.journal[last].1.revision)
    }
}

impl Commits for Log {
    fn commit(&self, commit: Arc<Commit>, _: usize) -> BoxFuture<'_, Result<Committed, CommitError>> {
        let is_fence: Vec<bool> = commit.guards.iter().map(|it| matches!(it, Guard::Fence(_))).collect();
        let verdict = match self.apply(Command::Commit(commit)) {
            Ok(Response::Commit(committed)) => Ok(committed),
            Ok(other) => unreachable!("not the verdict of a commit: {other:?}"),
            Err(rejection) => {
                if let Rejection::Guard { index, .. } = &rejection
                    && is_fence.get(*index) == Some(&true)
                {
                    self.written.lock().fenced += 1;
                }
                Err(ProposeError::Rejected(rejection).into())
            }
        };
        Box::pin(std::future::ready(verdict))
    }
}

/// There is no copy but this one.
impl Barrier for Log {
    fn pass(&self) -> BoxFuture<'_, Result<(), Refusal>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn is_led(&self) -> bool {
        true
    }
}
