//! How far the local state has come, for those who wait for it and for those who need the membership as applied.

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::membership::MembershipRecord;
use crate::raft::StoredMembership;

pub struct Progress {
    applied: watch::Sender<Option<u64>>,
    record: Mutex<MembershipRecord>,
}

impl Progress {
    pub fn new(applied: Option<u64>, record: MembershipRecord) -> Self {
        Self { applied: watch::Sender::new(applied), record: Mutex::new(record) }
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

    pub fn record(&self) -> MembershipRecord {
        self.record.lock().clone()
    }

    pub(super) fn set_applied(&self, index: u64) {
        self.applied.send_replace(Some(index));
    }

    pub(super) fn advance_membership(&self, stored: StoredMembership) -> MembershipRecord {
        let mut record = self.record.lock();
        *record = record.advance(stored);
        record.clone()
    }

    pub(super) fn replace(&self, applied: Option<u64>, record: MembershipRecord) {
        *self.record.lock() = record;
        self.applied.send_replace(applied);
    }
}
