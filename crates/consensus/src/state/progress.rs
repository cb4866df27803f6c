//! How far the local state has come, for those who wait for it and for those who need the membership as applied.

use parking_lot::Mutex;
use setpoint_types::NodeId;
use tokio::sync::watch;

use crate::machine::Position;
use crate::membership::MembershipRecord;
use crate::raft::StoredMembership;

pub struct Progress {
    applied: watch::Sender<Option<u64>>,
    record: watch::Sender<MembershipRecord>,
    committed: Mutex<Option<Position>>,
}

impl Progress {
    pub fn new(applied: Option<u64>, record: MembershipRecord) -> Self {
        Self {
            applied: watch::Sender::new(applied),
            record: watch::Sender::new(record),
            committed: Mutex::default(),
        }
    }

    pub fn applied(&self) -> Option<u64> {
        *self.applied.borrow()
    }

    /// Returns once the entry at `index` is applied; waits for ever if it never is.
    pub async fn reached(&self, index: u64) {
        let mut applied = self.applied.subscribe();
        // The sender lives in `self`, so the channel cannot close while we wait.
        let _ = applied.wait_for(|applied| *applied >= Some(index)).await;
    }

    /// The highest commit that may have shown anywhere outside this node's consensus: in an answer, in the local state
    /// or at a follower. Nothing acknowledged under this node's leadership lies beyond it.
    pub fn committed(&self) -> Option<Position> {
        *self.committed.lock()
    }

    /// To be called before a commit shows: before it is sent to a follower, and before it is applied.
    pub fn note_committed(&self, position: Position) {
        let mut committed = self.committed.lock();
        *committed = (*committed).max(Some(position));
    }

    pub fn record(&self) -> MembershipRecord {
        self.record.borrow().clone()
    }

    pub fn is_former(&self, node: NodeId) -> bool {
        self.record.borrow().is_former(node)
    }

    /// Returns once the node was a member and is none any more; waits for ever if that never happens.
    pub async fn removed(&self, node: NodeId) {
        let mut record = self.record.subscribe();
        let _ = record.wait_for(|record| record.is_former(node)).await;
    }

    pub(super) fn set_applied(&self, index: u64) {
        self.applied.send_replace(Some(index));
    }

    pub(super) fn advance_membership(&self, stored: StoredMembership) -> MembershipRecord {
        let record = self.record.borrow().advance(stored);
        self.record.send_replace(record.clone());
        record
    }

    pub(super) fn replace(&self, applied: Option<u64>, record: MembershipRecord) {
        self.record.send_replace(record);
        self.applied.send_replace(applied);
    }
}
