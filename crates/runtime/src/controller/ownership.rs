//! Which keys this process may work on: what the loop needs of an election, and the case without one.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use setpoint_types::object::Fence;
use tokio::sync::watch;

use crate::election::{RunGuard, ShardId, Shards};

/// Says which shards are this process's.
pub(crate) trait Ownership: Send + Sync + 'static {
    fn shard_of(&self, hash: u64) -> ShardId;

    /// What is held now, with the fence of each. None: writes need none, because nobody else asks.
    fn held(&self) -> BTreeMap<ShardId, Option<Fence>>;

    /// The right to run a key, if its shard is held.
    fn begin(&self, hash: u64) -> Option<Hold>;

    /// Changes whenever a shard is gained or lost.
    fn changes(&self) -> watch::Receiver<u64>;

    /// A write of this run was refused for want of its shard.
    fn refused(&self, hold: &Hold);
}

/// The right to run one key. The shard is not given away on purpose while there is one.
pub(crate) struct Hold {
    pub shard: ShardId,
    pub fence: Option<Fence>,
    guard: Option<RunGuard>,
}

impl Hold {
    /// Ends when the shard is lost: the run must be dropped at once.
    pub fn lost(&self) -> BoxFuture<'_, ()> {
        match &self.guard {
            Some(guard) => Box::pin(guard.claim().lost()),
            None => Box::pin(std::future::pending()),
        }
    }
}

impl Ownership for Shards {
    fn shard_of(&self, hash: u64) -> ShardId {
        Self::shard_of(self, hash)
    }

    fn held(&self) -> BTreeMap<ShardId, Option<Fence>> {
        Self::held(self).into_iter().map(|claim| (claim.shard, Some(claim.fence))).collect()
    }

    fn begin(&self, hash: u64) -> Option<Hold> {
        let guard = self.begin_run(hash)?;
        let (shard, fence) = (guard.claim().shard, Some(guard.claim().fence.clone()));
        Some(Hold { shard, fence, guard: Some(guard) })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        Self::changes(self)
    }

    fn refused(&self, hold: &Hold) {
        if let Some(guard) = &hold.guard {
            self.fenced(guard.claim());
        }
    }
}

/// Every key is this process's, always, and no write has a fence: for the one process that there is.
pub(crate) struct Alone {
    changes: watch::Sender<u64>,
}

const ALL: ShardId = ShardId(0);

impl Alone {
    pub fn new() -> Self {
        Self { changes: watch::Sender::new(0) }
    }
}

impl Ownership for Alone {
    fn shard_of(&self, _: u64) -> ShardId {
        ALL
    }

    fn held(&self) -> BTreeMap<ShardId, Option<Fence>> {
        BTreeMap::from([(ALL, None)])
    }

    fn begin(&self, _: u64) -> Option<Hold> {
        Some(Hold { shard: ALL, fence: None, guard: None })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn refused(&self, _: &Hold) {}
}
