//! Which shards are open for work: held, and with caches that have seen everything their holder before wrote.
//!
//! Not here: whether a shard is held (`ownership.rs`), and what opens it (`shards.rs`).

use std::collections::BTreeMap;

use parking_lot::RwLock;
use setpoint_types::object::Fence;

use super::ownership::Hold;
use crate::election::ShardId;

/// The open shards, each with the fence it was opened under: held again later, it is another one.
#[derive(Debug, Default)]
pub(super) struct Gate {
    open: RwLock<BTreeMap<ShardId, Option<Fence>>>,
}

impl Gate {
    pub fn is_open(&self, shard: ShardId) -> bool {
        self.open.read().contains_key(&shard)
    }

    pub fn admits(&self, hold: &Hold) -> bool {
        self.open.read().get(&hold.shard).is_some_and(|fence| *fence == hold.fence)
    }

    /// Closes what is no longer held, and tells what is held and not open.
    pub fn compare(&self, held: &BTreeMap<ShardId, Option<Fence>>) -> BTreeMap<ShardId, Option<Fence>> {
        let mut open = self.open.write();
        open.retain(|shard, fence| held.get(shard) == Some(fence));
        held.iter()
            .filter(|(shard, _)| !open.contains_key(shard))
            .map(|(shard, fence)| (*shard, fence.clone()))
            .collect()
    }

    pub fn open(&self, shards: BTreeMap<ShardId, Option<Fence>>) {
        self.open.write().extend(shards);
    }
}

#[cfg(test)]
mod tests {
    use setpoint_types::Epoch;

    use super::*;

    fn held(epochs: &[(u32, u64)]) -> BTreeMap<ShardId, Option<Fence>> {
        let fence = |epoch| Some(Fence { epoch: Epoch(epoch), ..Fence::default() });
        epochs.iter().map(|(shard, epoch)| (ShardId(*shard), fence(*epoch))).collect()
    }

    #[test]
    fn a_shard_that_was_lost_and_gained_again_has_to_be_opened_again() {
        let gate = Gate::default();
        assert_eq!(gate.compare(&held(&[(0, 1), (1, 1)])), held(&[(0, 1), (1, 1)]));
        gate.open(held(&[(0, 1), (1, 1)]));
        assert!(gate.compare(&held(&[(0, 1), (1, 1)])).is_empty());
        assert_eq!(gate.compare(&held(&[(1, 2)])), held(&[(1, 2)]));
        assert!(!gate.is_open(ShardId(0)) && !gate.is_open(ShardId(1)));
    }
}
