//! The newest entries, in memory: replication and apply read them from here, so that a log that keeps up
//! never reads its files. Bounded, except that what is not durable yet cannot leave.

use std::collections::VecDeque;

use crate::codec;
use crate::raft::Entry;

pub struct Tail {
    entries: VecDeque<Entry>,
    /// The log index of the first entry held, or of the next to come.
    first: u64,
    bytes: usize,
    bytes_max: usize,
    entries_max: usize,
}

/// What an entry costs beside its payload.
const OVERHEAD: usize = size_of::<Entry>();

impl Tail {
    pub fn new(first: u64, bytes_max: usize, entries_max: usize) -> Self {
        Self { entries: VecDeque::new(), first, bytes: 0, bytes_max, entries_max }
    }

    pub fn first(&self) -> u64 {
        self.first
    }

    /// The caller has checked that `entry` follows.
    pub fn push(&mut self, entry: Entry) {
        if self.entries.is_empty() {
            self.first = entry.log_id.index;
        }
        self.bytes += cost(&entry);
        self.entries.push_back(entry);
    }

    pub fn get(&self, index: u64) -> Option<&Entry> {
        self.entries.get(usize::try_from(index.checked_sub(self.first)?).ok()?)
    }

    pub fn truncate(&mut self, next: u64) {
        while let Some(entry) = self.entries.pop_back_if(|entry| entry.log_id.index >= next) {
            self.bytes -= cost(&entry);
        }
        self.first = self.first.min(next);
    }

    pub fn purge(&mut self, upto: u64) {
        while let Some(entry) = self.entries.pop_front_if(|entry| entry.log_id.index <= upto) {
            self.bytes -= cost(&entry);
        }
        self.first = self.first.max(upto + 1);
    }

    /// Takes out the oldest entries beyond the bounds, as far as they are durable. Returned so that they can
    /// be dropped outside of the lock.
    pub fn evict(&mut self, durable_below: u64) -> Vec<Entry> {
        let mut evicted = Vec::new();
        while (self.bytes > self.bytes_max || self.entries.len() > self.entries_max)
            && let Some(entry) = self.entries.pop_front_if(|entry| entry.log_id.index < durable_below)
        {
            self.bytes -= cost(&entry);
            self.first += 1;
            evicted.push(entry);
        }
        evicted
    }
}

fn cost(entry: &Entry) -> usize {
    OVERHEAD + codec::encoded_len(entry)
}

#[cfg(test)]
mod tests {
    use openraft::EntryPayload;

    use super::*;
    use crate::raft::LogId;

    fn filled(count: u64, entries_max: usize) -> Tail {
        let mut tail = Tail::new(0, usize::MAX, entries_max);
        for index in 0..count {
            tail.push(Entry { log_id: LogId { leader_id: 1.into(), index }, payload: EntryPayload::Blank });
        }
        tail
    }

    #[test]
    fn only_durable_entries_leave() {
        let mut tail = filled(10, 4);
        assert_eq!(tail.evict(3).len(), 3);
        assert_eq!((tail.first(), tail.entries.len()), (3, 7));
        assert_eq!(tail.evict(10).len(), 3);
        assert!(tail.get(5).is_none() && tail.get(6).is_some());
    }

    #[test]
    fn bytes_are_accounted_for() {
        let mut tail = filled(10, usize::MAX);
        let each = tail.bytes / 10;
        tail.truncate(8);
        tail.purge(1);
        assert_eq!((tail.bytes, tail.first()), (6 * each, 2));
        tail.truncate(1);
        assert_eq!((tail.bytes, tail.first()), (0, 1));
        tail.bytes_max = 0;
        tail.purge(6);
        assert_eq!(tail.first(), 7);
    }
}
