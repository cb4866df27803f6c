//! The shape of the log without its payloads: which log ids it has. A few words per leadership, whatever the
//! length.
//!
//! The store, the writer and recovery each keep one and change it by the same rules, which are therefore only
//! here.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use crate::raft::LogId;

/// The log ids of the entries held, and where they begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    purged: Option<LogId>,
    last: Option<LogId>,
    /// One per leadership that has entries here, in order.
    runs: VecDeque<Run>,
}

/// Consecutive entries of one term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    term: u64,
    first: u64,
}

/// An entry does not follow the last one: the caller left a hole.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("entry {index} does not follow the last one, {last}")]
pub struct Hole {
    pub index: u64,
    pub last: u64,
}

impl Outline {
    /// A log whose entries, if any, are elsewhere: it goes on after `last`.
    pub fn starting_after(purged: Option<LogId>, last: Option<LogId>) -> Self {
        Self { purged, last, runs: VecDeque::new() }
    }

    pub fn purged(&self) -> Option<LogId> {
        self.purged
    }

    /// The last entry, or the last purged one when there is none.
    pub fn last(&self) -> Option<LogId> {
        self.last
    }

    /// The indexes of the entries held.
    pub fn range(&self) -> std::ops::Range<u64> {
        match (self.runs.front(), self.last) {
            (Some(run), Some(last)) => run.first..last.index + 1,
            (_, last) => {
                let next = last.map_or(0, |last| last.index + 1);
                next..next
            }
        }
    }

    /// An empty log takes a first entry at any index; it is openraft that knows where the log begins.
    pub fn append(&mut self, log_id: LogId) -> Result<(), Hole> {
        if let Some(last) = self.last
            && log_id.index != last.index + 1
        {
            return Err(Hole { index: log_id.index, last: last.index });
        }
        if self.runs.back().is_none_or(|run| run.term != *log_id.leader_id) {
            self.runs.push_back(Run { term: *log_id.leader_id, first: log_id.index });
        }
        self.last = Some(log_id);
        Ok(())
    }

    /// Drops the entries after `keep`, all of them for `None`, and returns the index that comes next, if it
    /// is known.
    pub fn truncate_after(&mut self, keep: Option<LogId>) -> u64 {
        let next = keep.map_or(0, |keep| keep.index + 1);
        while self.runs.pop_back_if(|run| run.first >= next).is_some() {}
        match self.runs.back() {
            Some(run) => {
                if self.last.is_some_and(|last| last.index >= next) {
                    self.last = Some(LogId { leader_id: run.term.into(), index: next - 1 });
                }
            }
            None => {
                // `keep` may be an entry of which only the checkpoint tells: see `starting_after`.
                let kept = keep.filter(|keep| self.last.is_some_and(|last| keep.index <= last.index));
                self.last = kept.max(self.purged);
            }
        }
        next
    }

    /// Drops the entries up to `upto`, which may lie beyond the last one.
    pub fn purge(&mut self, upto: LogId) {
        if self.purged.is_some_and(|purged| purged.index >= upto.index) {
            return;
        }
        self.purged = Some(upto);
        if self.last.is_none_or(|last| last.index <= upto.index) {
            self.runs.clear();
            self.last = Some(upto);
            return;
        }
        while self.runs.get(1).is_some_and(|second| second.first <= upto.index + 1) {
            self.runs.pop_front();
        }
        if let Some(run) = self.runs.front_mut() {
            run.first = run.first.max(upto.index + 1);
        }
    }

    /// The last log id of each leadership with entries in `range`.
    pub fn last_of_each_leader(&self, range: &RangeInclusive<LogId>) -> Vec<LogId> {
        let held = self.range();
        let ends = self.runs.iter().skip(1).map(|run| run.first).chain([held.end]);
        let (from, to) =
            (range.start().index.max(held.start), range.end().index.min(held.end.saturating_sub(1)));
        self.runs
            .iter()
            .zip(ends)
            .filter(|(run, end)| run.first <= to && *end > from)
            .map(|(run, end)| LogId { leader_id: run.term.into(), index: to.min(end - 1) })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(term: u64, index: u64) -> LogId {
        LogId { leader_id: term.into(), index }
    }

    fn outline(ids: &[(u64, u64)]) -> Outline {
        let mut outline = Outline::default();
        for &(term, index) in ids {
            outline.append(id(term, index)).expect("the ids are consecutive");
        }
        outline
    }

    #[test]
    fn it_follows_appends_truncation_and_purge() {
        let mut outline = outline(&[(1, 0), (1, 1), (2, 2), (2, 3), (4, 4)]);
        assert_eq!(outline.last_of_each_leader(&(id(1, 0)..=id(4, 4))), [id(1, 1), id(2, 3), id(4, 4)]);
        assert_eq!(outline.last_of_each_leader(&(id(1, 1)..=id(2, 2))), [id(1, 1), id(2, 2)]);
        assert_eq!(outline.truncate_after(Some(id(2, 2))), 3);
        assert_eq!((outline.range(), outline.last()), (0..3, Some(id(2, 2))));
        outline.append(id(5, 3)).expect("3 follows 2");
        outline.purge(id(1, 1));
        assert_eq!((outline.range(), outline.purged()), (2..4, Some(id(1, 1))));
        assert_eq!(outline.last_of_each_leader(&(id(2, 2)..=id(5, 3))), [id(2, 2), id(5, 3)]);
        outline.purge(id(7, 9));
        assert_eq!((outline.range(), outline.last()), (10..10, Some(id(7, 9))));
        assert!(outline.append(id(7, 12)).is_err(), "a hole was accepted");
    }

    #[test]
    fn truncating_everything_leaves_what_is_purged() {
        let mut outline = outline(&[(1, 0), (1, 1)]);
        outline.truncate_after(None);
        assert_eq!((outline.range(), outline.last()), (0..0, None));
        outline.append(id(3, 0)).expect("an empty log takes any entry");
        outline.purge(id(3, 0));
        outline.append(id(3, 1)).expect("1 follows 0");
        outline.truncate_after(Some(id(3, 0)));
        assert_eq!((outline.range(), outline.last()), (1..1, Some(id(3, 0))));
    }
}
