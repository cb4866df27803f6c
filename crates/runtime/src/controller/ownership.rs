//! Which keys this process may work on: what the loop needs of an election, and the case without one.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use setpoint_types::object::Fence;
use tokio::sync::watch;

/// A part of a controller's keys.
pub(crate) type Shard = u32;

/// Says which shards are this process's.
pub(crate) trait Ownership: Send + Sync + 'static {
    fn shard_of(&self, hash: u64) -> Shard;

    /// What is held now, with the fence of each. None: writes need none, because nobody else asks.
    fn held(&self) -> BTreeMap<Shard, Option<Fence>>;

    /// The right to run a key, if its shard is held. The shard is not given away on purpose while there is one.
    fn begin(&self, hash: u64) -> Option<Hold>;

    /// Changes whenever a shard is gained or lost.
    fn changes(&self) -> watch::Receiver<u64>;
}

/// The right to run one key.
pub(crate) struct Hold {
    pub shard: Shard,
    pub fence: Option<Fence>,
    /// Ends when the shard is lost: the run must be dropped at once.
    pub lost: BoxFuture<'static, ()>,
    /// Keeps the shard from being given away.
    pub guard: Option<Box<dyn Send + Sync>>,
}

/// Every key is this process's, always, and no write has a fence: for the one process that there is.
pub(crate) struct Alone {
    changes: watch::Sender<u64>,
}

impl Alone {
    pub fn new() -> Self {
        Self { changes: watch::Sender::new(0) }
    }
}

impl Ownership for Alone {
    fn shard_of(&self, _: u64) -> Shard {
        0
    }

    fn held(&self) -> BTreeMap<Shard, Option<Fence>> {
        BTreeMap::from([(0, None)])
    }

    fn begin(&self, _: u64) -> Option<Hold> {
        Some(Hold { shard: 0, fence: None, lost: Box::pin(std::future::pending()), guard: None })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
