//! How many bytes the log holds after an index, by marks a fraction of a mebibyte apart.
//!
//! Entries differ a thousandfold in size, so a log cut by their number alone may be anything between small and huge. What
//! was there at start counts as nothing: it is cut by number, or as soon as as much was added as may be kept.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// Between two marks, unless one entry is larger.
const STEP: u64 = 256 << 10;

#[derive(Debug, Default)]
pub struct Growth {
    marks: Mutex<Marks>,
}

#[derive(Debug, Default)]
struct Marks {
    /// Bytes appended so far, less what was taken back.
    total: u64,
    marks: VecDeque<Mark>,
}

/// Up to and including the entry at `index`, `total` bytes were appended.
#[derive(Clone, Copy, Debug)]
struct Mark {
    index: u64,
    total: u64,
}

impl Growth {
    pub fn append(&self, last: u64, bytes: usize) {
        let mut marks = self.marks.lock();
        marks.total += bytes as u64;
        let total = marks.total;
        if marks.marks.back().is_none_or(|mark| total - mark.total >= STEP) {
            marks.marks.push_back(Mark { index: last, total });
        }
    }

    pub fn truncate_after(&self, last: Option<u64>) {
        let mut marks = self.marks.lock();
        let mut taken_back = None;
        while let Some(mark) = marks.marks.pop_back_if(|mark| Some(mark.index) > last) {
            taken_back = Some(mark.total);
        }
        // Less than a step is forgotten or counted twice; nobody relies on so little.
        marks.total = marks.marks.back().map(|mark| mark.total).or(taken_back).unwrap_or(marks.total);
    }

    pub fn purge(&self, upto: u64) {
        let mut marks = self.marks.lock();
        // The last mark below is what the next ones are measured from.
        while marks.marks.get(1).is_some_and(|mark| mark.index <= upto) {
            marks.marks.pop_front();
        }
    }

    /// About how many bytes lie after `index`, or in all if it is none.
    pub fn bytes_after(&self, index: Option<u64>) -> u64 {
        let marks = self.marks.lock();
        let before = marks.marks.iter().rev().find(|mark| Some(mark.index) <= index);
        let before = before.map(|mark| mark.total);
        marks.total - before.or_else(|| marks.marks.front().map(|mark| mark.total)).unwrap_or(marks.total)
    }

    /// The highest index such that at least `bytes` lie after it; none if there are not so many.
    pub fn index_before(&self, bytes: u64) -> Option<u64> {
        let marks = self.marks.lock();
        marks.marks.iter().rev().find(|mark| marks.total - mark.total >= bytes).map(|mark| mark.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(entries: u64) -> Growth {
        let growth = Growth::default();
        for index in 1..=entries {
            growth.append(index, STEP as usize);
        }
        growth
    }

    #[test]
    fn bytes_are_counted_from_the_marks() {
        let growth = filled(10);
        assert_eq!(growth.bytes_after(Some(4)), 6 * STEP);
        assert_eq!(growth.bytes_after(Some(10)), 0);
        assert_eq!(growth.index_before(3 * STEP), Some(7));
        assert_eq!(growth.index_before(100 * STEP), None);
        growth.truncate_after(Some(8));
        assert_eq!(growth.index_before(3 * STEP), Some(5));
        growth.purge(6);
        assert_eq!((growth.index_before(2 * STEP), growth.index_before(3 * STEP)), (Some(6), None));
        growth.truncate_after(None);
        assert_eq!(growth.bytes_after(None), 0);
        growth.append(1, STEP as usize);
        growth.append(2, STEP as usize);
        assert_eq!(growth.bytes_after(Some(1)), STEP);
    }

    #[test]
    fn marks_are_few_however_many_entries_there_are() {
        let growth = Growth::default();
        for index in 0..100_000 {
            growth.append(index, 100);
        }
        assert!(growth.marks.lock().marks.len() <= 40);
        assert!(growth.bytes_after(Some(0)) > 9_000_000);
    }
}
