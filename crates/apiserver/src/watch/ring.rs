//! The newest changes, in memory, bounded by bytes.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use setpoint_store::{Change, ChangeSet, EngineFailure, Store};
use setpoint_types::Revision;

use super::shelf::{Replaced, Shelf};
use crate::objects::SharedEvents;

/// One revision's changes, with what its watchers share.
pub struct Published {
    pub changes: Arc<ChangeSet>,
    /// What each change replaced, for as long as the shelf or somebody else has it. Made when the first is asked for: of most
    /// revisions nobody asks.
    previous: OnceLock<Box<[Mutex<Weak<Replaced>>]>>,
    shelf: Arc<Shelf>,
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
    /// Changes whose replaced values are kept as long as they are themselves.
    pub fn new(changes: Arc<ChangeSet>) -> Self {
        Self::shelved(changes, Arc::new(Shelf::new(usize::MAX)))
    }

    /// Changes whose replaced values have to share a shelf with others.
    pub fn shelved(changes: Arc<ChangeSet>, shelf: Arc<Shelf>) -> Self {
        Self { changes, previous: OnceLock::new(), shelf, events: SharedEvents::default() }
    }

    pub fn revision(&self) -> Revision {
        self.changes.revision
    }

    /// What the change at a place replaced; none if its key was created. Read once for all who ask at about the same time.
    pub fn previous(&self, place: usize, store: &Store) -> Result<Option<Arc<Replaced>>, PreviousMissing> {
        let records = &self.changes.records;
        let Some(id) = records[place].replaced else { return Ok(None) };
        let all = self.previous.get_or_init(|| records.iter().map(|_| Mutex::default()).collect());
        let mut previous = all[place].lock();
        if let Some(previous) = previous.upgrade() {
            return Ok(Some(previous));
        }
        let record = store.record(id).map_err(PreviousMissing::Storage)?;
        let value = record.ok_or(PreviousMissing::Collected)?.to_key_value(id.revision);
        let read = Arc::new(Replaced::new(value));
        *previous = Arc::downgrade(&read);
        self.shelf.keep(&read);
        Ok(Some(read))
    }

    /// About how much memory it holds on to; the shelf counts what it replaced.
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
    use bytes::Bytes;
    use setpoint_store::command::{Command, DeleteRange, Proposal, ProposalId, Put};
    use setpoint_store::{Body, Entry, MemoryEngine, Position, Record};
    use setpoint_types::{KeyRange, NodeId, Timestamp};

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

    /// The changes of a store in which each of so many keys was put, with a value of this size, and then deleted.
    fn deletes(keys: usize, value_bytes: usize) -> (Store, Vec<Arc<ChangeSet>>) {
        let store = Store::open(Arc::new(MemoryEngine::new())).expect("an empty store opens");
        let key = |n: usize| Bytes::from(format!("key{n:04}"));
        let value = Bytes::from(vec![b'v'; value_bytes]);
        let put = |n| Command::Put(Put { key: key(n), value: value.clone(), ..Put::default() });
        let delete =
            |n| Command::DeleteRange(DeleteRange { range: KeyRange::Single(key(n)), want_previous: false });
        let id = ProposalId { node: NodeId(1), sequence: 0 };
        let encode = |command| Proposal { id, command }.encode();
        let apply = |index, commands| {
            let body = Body::Commands { stamp: Timestamp(0), commands };
            let entry = Entry { position: Position { term: 1, index }, body };
            store.apply(&[entry], NodeId(9)).expect("applies").changes
        };
        apply(1, (0..keys).map(put).map(encode).collect());
        let deleted = apply(2, (0..keys).map(delete).map(encode).collect());
        (store, deleted)
    }

    fn replaced(set: &Published, store: &Store) -> Arc<Replaced> {
        set.previous(0, store).ok().flatten().expect("is there")
    }

    #[test]
    fn replaced_values_are_shared_while_new_and_do_not_outgrow_their_shelf() {
        let (store, changes) = deletes(100, 10_000);
        let shelf = Arc::new(Shelf::new(50_000));
        let mut ring = Ring::new(changes[0].revision.predecessor(), 1 << 20);
        for set in changes {
            let set = Arc::new(Published::shelved(set, shelf.clone()));
            ring.push(set.clone());
            let first = replaced(&set, &store);
            assert_eq!(first.value.value.len(), 10_000);
            let second = replaced(&set, &store);
            assert!(Arc::ptr_eq(&first, &second), "read once for all who ask");
        }
        let is_kept = |set: &&Arc<Published>| {
            set.previous.get().is_some_and(|previous| previous[0].lock().strong_count() > 0)
        };
        let kept = ring.sets.iter().filter(is_kept).count();
        assert_eq!((ring.sets.len(), kept), (100, 4), "of 50,000 bytes each takes a little over 10,000");
        assert_eq!(replaced(&ring.sets[0], &store).value.value.len(), 10_000, "and can be read again");
    }
}
