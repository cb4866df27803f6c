//! What this node has promised, readable at any moment by whoever may pledge it to a leader.
//!
//! A node that votes for a term never again acknowledges anything of a lower one. The highest term it has voted for is
//! noted here before the vote can leave the node, even before it is on disk. So when a node pledges "nothing above this
//! term" at some moment, no quorum with it in it had elected a later leader by then (docs/adr/0006).
//!
//! Also here: where the log's last membership is, so that a leader can tell whether the members it counts are the latest.

use std::sync::atomic::{AtomicU64, Ordering};

use openraft::EntryPayload;
use parking_lot::Mutex;

use crate::raft::{Entry, Vote};

/// Memberships remembered. A change takes two, and hardly one is ever taken back.
const MEMBERSHIPS: usize = 16;

#[derive(Debug, Default)]
pub struct Pledge {
    promised: AtomicU64,
    /// Indexes of the memberships appended since the start, the latest last.
    memberships: Mutex<Vec<u64>>,
}

impl Pledge {
    pub fn new(vote: Option<&Vote>) -> Self {
        let pledge = Self::default();
        if let Some(vote) = vote {
            pledge.promise(vote);
        }
        pledge
    }

    /// The highest term voted for.
    pub fn promised(&self) -> u64 {
        self.promised.load(Ordering::SeqCst)
    }

    /// Where the last membership was appended, if one was since the start and was not taken back.
    pub fn membership(&self) -> Option<u64> {
        self.memberships.lock().last().copied()
    }

    pub(crate) fn promise(&self, vote: &Vote) {
        self.promised.fetch_max(vote.leader_id.term, Ordering::SeqCst);
    }

    pub(crate) fn append(&self, entries: &[Entry]) {
        for entry in entries {
            if let EntryPayload::Membership(_) = entry.payload {
                let mut memberships = self.memberships.lock();
                if memberships.len() == MEMBERSHIPS {
                    memberships.remove(0);
                }
                memberships.push(entry.log_id.index);
            }
        }
    }

    pub(super) fn truncate_after(&self, last: Option<u64>) {
        self.memberships.lock().retain(|index| Some(*index) <= last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raft::{LogId, Membership};

    fn membership_at(index: u64) -> Entry {
        let log_id = LogId { leader_id: 1.into(), index };
        Entry { log_id, payload: EntryPayload::Membership(Membership::default()) }
    }

    #[test]
    fn a_promise_is_never_taken_back() {
        let pledge = Pledge::new(Some(&Vote::new(3, 1)));
        assert_eq!(pledge.promised(), 3);
        pledge.promise(&Vote::new(7, 2));
        pledge.promise(&Vote::new(5, 1));
        assert_eq!(pledge.promised(), 7);
    }

    #[test]
    fn the_last_membership_is_the_last_that_was_not_taken_back() {
        let pledge = Pledge::default();
        assert_eq!(pledge.membership(), None);
        pledge.append(&[membership_at(4), membership_at(9)]);
        assert_eq!(pledge.membership(), Some(9));
        pledge.truncate_after(Some(8));
        assert_eq!(pledge.membership(), Some(4));
        pledge.truncate_after(None);
        assert_eq!(pledge.membership(), None);
        let many: Vec<Entry> = (10..100).map(membership_at).collect();
        pledge.append(&many);
        assert_eq!(pledge.membership(), Some(99));
        assert!(pledge.memberships.lock().len() <= MEMBERSHIPS);
    }
}
