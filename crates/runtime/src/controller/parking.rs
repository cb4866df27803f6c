//! Keys that have run and wait until the caches have seen what they wrote. Pure.
//!
//! Not here: who asks how far the caches are, and what becomes of a key then (`keeper.rs`).

use std::collections::BTreeMap;

use setpoint_types::Revision;

use crate::cache::Pending;

/// What waits, by what it waits for. Bounded by the queue, which knows every key in it.
#[derive(Debug)]
pub(super) struct Parking<T> {
    by_kind: BTreeMap<String, BTreeMap<Revision, Vec<T>>>,
    /// For a revision that has yet to be read: a write may have been done, and nobody knows at which.
    in_doubt: Vec<T>,
    len: usize,
}

impl<T> Default for Parking<T> {
    fn default() -> Self {
        Self { by_kind: BTreeMap::new(), in_doubt: Vec::new(), len: 0 }
    }
}

impl<T> Parking<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    /// Waits for a revision of a kind.
    pub fn park(&mut self, until: Pending, item: T) {
        self.by_kind.entry(until.kind).or_default().entry(until.revision).or_default().push(item);
        self.len += 1;
    }

    /// Waits until somebody has read what the present revision is.
    pub fn park_in_doubt(&mut self, item: T) {
        self.in_doubt.push(item);
        self.len += 1;
    }

    pub fn has_doubts(&self) -> bool {
        !self.in_doubt.is_empty()
    }

    /// Those in doubt, for whom the revision is being read now.
    pub fn take_doubts(&mut self) -> Vec<T> {
        let taken = std::mem::take(&mut self.in_doubt);
        self.len -= taken.len();
        taken
    }

    /// Those that wait no longer. `reached` tells how far the caches of a kind have come; none if there are none.
    pub fn take_reached(&mut self, reached: impl Fn(&str) -> Option<Revision>) -> Vec<T> {
        let mut taken = Vec::new();
        self.by_kind.retain(|kind, waiting| {
            let later = match reached(kind) {
                Some(reached) => waiting.split_off(&reached.successor()),
                None => BTreeMap::new(),
            };
            taken.extend(std::mem::replace(waiting, later).into_values().flatten());
            !waiting.is_empty()
        });
        self.len -= taken.len();
        taken
    }

    /// Those for which this is true.
    pub fn take_if(&mut self, mut is_taken: impl FnMut(&T, Option<Revision>) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        self.by_kind.retain(|_, waiting| {
            for (revision, items) in waiting.iter_mut() {
                taken.extend(items.extract_if(.., |item| is_taken(item, Some(*revision))));
            }
            waiting.retain(|_, items| !items.is_empty());
            !waiting.is_empty()
        });
        taken.extend(self.in_doubt.extract_if(.., |item| is_taken(item, None)));
        self.len -= taken.len();
        taken
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.by_kind.values().flat_map(BTreeMap::values).flatten().chain(&self.in_doubt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(kind: &str, revision: u64) -> Pending {
        Pending { kind: kind.into(), revision: Revision::new(revision) }
    }

    fn at(revision: u64) -> impl Fn(&str) -> Option<Revision> {
        move |kind| (kind != "Uncached").then(|| Revision::new(revision))
    }

    #[test]
    fn each_waits_for_its_own_revision_and_for_no_kind_that_nobody_caches() {
        let mut parking = Parking::default();
        parking.park(until("Replica", 7), "a");
        parking.park(until("Replica", 5), "b");
        parking.park(until("Config", 6), "c");
        parking.park(until("Uncached", 99), "d");
        assert_eq!(parking.take_reached(at(4)), ["d"]);
        assert_eq!(parking.take_reached(at(5)), ["b"]);
        assert_eq!(parking.take_reached(at(5)), [""; 0]);
        assert_eq!(parking.take_reached(at(7)), ["c", "a"]);
        assert_eq!(parking.len(), 0);
    }

    #[test]
    fn what_is_in_doubt_waits_until_it_is_taken() {
        let mut parking = Parking::default();
        parking.park_in_doubt("a");
        parking.park(until("Replica", 7), "b");
        assert!(parking.has_doubts() && parking.take_reached(at(99)) == ["b"]);
        assert_eq!((parking.take_doubts(), parking.len()), (vec!["a"], 0));
    }

    #[test]
    fn some_can_be_taken_out_before_their_time() {
        let mut parking = Parking::default();
        parking.park(until("Replica", 7), "a");
        parking.park(until("Replica", 9), "b");
        parking.park_in_doubt("c");
        let beyond = |_: &&str, revision: Option<Revision>| revision.is_some_and(|it| it.get() > 8);
        assert_eq!(parking.take_if(beyond), ["b"]);
        assert_eq!(parking.iter().copied().collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!((parking.take_if(|_, _| true).len(), parking.len()), (2, 0));
    }
}
