//! The newest changes, in memory, bounded by bytes.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use setpoint_store::{Change, ChangeSet, EngineFailure, KeyValue, Store};
use setpoint_types::Revision;

use crate::objects::SharedEvents;

/// One revision's changes, with what its watchers share.
pub struct Published {
    pub changes: Arc<ChangeSet>,
    /// What each change replaced, read once for all who ask.
    previous: OnceLock<Vec<Option<KeyValue>>>,
    /// The same changes as events of objects.
    pub events: SharedEvents,
}

/// Why the replaced values of a revision are not to be had.
pub enum PreviousMissing {
    /// A compaction overtook the revision.
    Collected,
    Storage(EngineFailure),
}

impl Published {
    pub fn new(changes: Arc<ChangeSet>) -> Self {
        Self { changes, previous: OnceLock::new(), events: SharedEvents::default() }
    }

    pub fn revision(&self) -> Revision {
        self.changes.revision
    }

    /// The value each change replaced; none for a key that was created.
    pub fn previous(&self, store: &Store) -> Result<&[Option<KeyValue>], PreviousMissing> {
        if let Some(previous) = self.previous.get() {
            return Ok(previous);
        }
        let read = self.changes.records.iter().map(|record| {
            let Some(id) = record.replaced else { return Ok(None) };
            match store.record(id).map_err(PreviousMissing::Storage)? {
                Some(replaced) => Ok(Some(replaced.to_key_value(id.revision))),
                None => Err(PreviousMissing::Collected),
            }
        });
        let previous = read.collect::<Result<Vec<_>, _>>()?;
        Ok(self.previous.get_or_init(|| previous))
    }

    /// About how much memory it holds on to.
    pub fn bytes(&self) -> usize {
        let sizes = self.changes.records.iter().map(|record| {
            let value = if let Change::Put { value, .. } = &record.change { value.len() } else { 0 };
            128 + record.key.len() + value
        });
        sizes.sum()
    }
}

pub struct Ring {
    sets: VecDeque<Arc<Published>>,
    bytes: usize,
    bytes_max: usize,
    /// The last revision published; the ring may hold nothing of it any more.
    newest: Revision,
}

impl Ring {
    pub fn new(newest: Revision, bytes_max: usize) -> Self {
        Self { sets: VecDeque::new(), bytes: 0, bytes_max, newest }
    }

    pub fn newest(&self) -> Revision {
        self.newest
    }

    pub fn push(&mut self, set: Arc<Published>) {
        // S9: what watchers see has no gap.
        assert_eq!(set.revision(), self.newest.successor(), "S9: gap in the published revisions");
        self.newest = set.revision();
        self.bytes += set.bytes();
        self.sets.push_back(set);
        while self.bytes > self.bytes_max
            && let Some(oldest) = self.sets.pop_front()
        {
            self.bytes -= oldest.bytes();
        }
    }

    /// Forgets everything: the state was replaced, and what lies between is known only to the store.
    pub fn reset(&mut self, newest: Revision) {
        self.sets.clear();
        self.bytes = 0;
        self.newest = newest;
    }

    /// True if the ring holds every revision from `from` on.
    pub fn reaches(&self, from: Revision) -> bool {
        from > self.newest || self.sets.front().is_some_and(|oldest| oldest.revision() <= from)
    }

    /// Everything from `from` on; call only if it `reaches` that far.
    pub fn since(&self, from: Revision) -> Vec<Arc<Published>> {
        self.some_since(from, usize::MAX)
    }

    /// The first of everything from `from` on.
    pub fn some_since(&self, from: Revision, revisions_max: usize) -> Vec<Arc<Published>> {
        let first = self.sets.partition_point(|set| set.revision() < from);
        self.sets.range(first..).take(revisions_max).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use setpoint_store::Record;

    use super::*;

    fn set(revision: u64) -> Arc<Published> {
        let record = Record { key: "key".into(), replaced: None, change: Change::Delete, author: None };
        Arc::new(Published::new(Arc::new(ChangeSet {
            revision: Revision::new(revision),
            records: vec![record],
        })))
    }

    #[test]
    fn the_oldest_go_first_and_the_reach_is_known() {
        let mut ring = Ring::new(Revision::new(1), 131 * 3);
        assert!(ring.reaches(Revision::new(2)) && !ring.reaches(Revision::new(1)));
        for revision in 2..=6 {
            ring.push(set(revision));
        }
        assert_eq!(ring.newest(), Revision::new(6));
        assert!(ring.reaches(Revision::new(4)) && !ring.reaches(Revision::new(3)));
        let revisions: Vec<_> = ring.since(Revision::new(5)).iter().map(|set| set.revision().get()).collect();
        assert_eq!(revisions, [5, 6]);
    }
}
