//! Which leases came or went last, so that whoever counts their time need not look at all of them each time.
//!
//! Belongs to one state in memory: neither stored nor the same on all replicas. No verdict depends on it.

use std::collections::VecDeque;

use setpoint_types::LeaseId;

/// Remembered changes: more than happen between two looks of the leader, which looks several times a second. Whoever comes
/// too late looks at all leases.
const RECENT_MAX: usize = 16 * 1024;

#[derive(Default)]
pub struct LeaseChanges {
    count: u64,
    /// The last of them, the newest at the end.
    recent: VecDeque<LeaseId>,
}

impl LeaseChanges {
    /// A lease came or went. Returns the number of the change.
    pub fn note(&mut self, lease: LeaseId) -> u64 {
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(lease);
        self.count += 1;
        self.count
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The leases that came or went after the change `seen`, some perhaps repeatedly. None if that is too long ago to tell,
    /// or was in another state.
    pub fn since(&self, seen: u64) -> Option<impl Iterator<Item = LeaseId> + '_> {
        let missed = usize::try_from(self.count.checked_sub(seen)?).ok()?;
        let known = self.recent.len().checked_sub(missed)?;
        Some(self.recent.range(known..).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(changes: &LeaseChanges, seen: u64) -> Option<Vec<i64>> {
        Some(changes.since(seen)?.map(|lease| lease.0).collect())
    }

    #[test]
    fn what_was_missed_is_told_for_as_long_as_it_is_remembered() {
        let mut changes = LeaseChanges::default();
        assert_eq!(since(&changes, 0), Some(vec![]));
        for lease in [7, 8, 7] {
            changes.note(LeaseId(lease));
        }
        assert_eq!(since(&changes, 0), Some(vec![7, 8, 7]));
        assert_eq!(since(&changes, 2), Some(vec![7]));
        assert_eq!(since(&changes, changes.count()), Some(vec![]));
        assert_eq!(since(&changes, 4), None, "of another state");
        for lease in 0..RECENT_MAX as i64 {
            changes.note(LeaseId(lease));
        }
        assert_eq!(since(&changes, 2), None, "too long ago");
        assert_eq!(since(&changes, 3).map(|leases| leases.len()), Some(RECENT_MAX));
    }
}
