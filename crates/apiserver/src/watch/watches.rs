//! The watches of one stream: by id, by the keys they want, and by how far they have come.
//!
//! A stream may have many watches and most changes concern few of them. So nothing that happens once per change walks over
//! all: a change is led to its watches by its key, and a watch that keeps up is moved on by the stream's own revision
//! instead of one of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use setpoint_types::Revision;

use super::ring::Published;
use super::router::Router;
use super::watcher::{State, WatchId, Watcher};

/// Shares are found for a part of the changes at a time, so that many watches of the same keys take little memory.
const SHARES_MAX: usize = 16 << 10;

#[derive(Default)]
pub struct Watches {
    by_id: BTreeMap<WatchId, Watcher>,
    by_key: Router<WatchId>,
    /// Those that read history.
    behind: BTreeSet<WatchId>,
    /// Those that were handed over since the stream last took changes. Some may be gone or behind again.
    joining: Vec<WatchId>,
}

/// Which of the changes concern which watches.
pub struct Shares {
    /// How many of the changes were looked at.
    pub looked_at: usize,
    /// By watch, the places of the changes.
    pub places: BTreeMap<WatchId, Vec<usize>>,
}

impl Watches {
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub fn contains(&self, id: WatchId) -> bool {
        self.by_id.contains_key(&id)
    }

    pub fn get_mut(&mut self, id: WatchId) -> Option<&mut Watcher> {
        self.by_id.get_mut(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Watcher> {
        self.by_id.values()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (WatchId, &mut Watcher)> {
        self.by_id.iter_mut().map(|(id, watcher)| (*id, watcher))
    }

    /// The id has to be free.
    pub fn insert(&mut self, id: WatchId, watcher: Watcher) {
        self.by_key.add(&watcher.spec.range, id);
        if watcher.state == State::Behind {
            self.behind.insert(id);
        }
        self.by_id.insert(id, watcher);
    }

    pub fn remove(&mut self, id: WatchId) -> Option<Watcher> {
        let watcher = self.by_id.remove(&id)?;
        self.by_key.remove(&watcher.spec.range, id);
        self.behind.remove(&id);
        Some(watcher)
    }

    /// How many read history.
    pub fn behind(&self) -> usize {
        self.behind.len()
    }

    /// The first revision that one of those behind has not seen.
    pub fn first_behind(&self) -> Option<Revision> {
        self.behind.iter().filter_map(|id| self.by_id.get(id)).map(|watcher| watcher.next).min()
    }

    /// Those behind that a compaction has overtaken.
    pub fn overtaken(&self, compacted: Revision) -> Vec<WatchId> {
        let overtaken = |id: &&WatchId| self.by_id.get(id).is_some_and(|watcher| watcher.next < compacted);
        self.behind.iter().filter(overtaken).copied().collect()
    }

    /// Nothing below this revision is left for those behind.
    pub fn skip_to(&mut self, revision: Revision) {
        for id in &self.behind {
            if let Some(watcher) = self.by_id.get_mut(id) {
                watcher.next = watcher.next.max(revision);
            }
        }
    }

    /// Hands those behind over to the hub if it can go on from where they are. True if there was one.
    pub fn hand_over(&mut self, mut resume: impl FnMut(Revision) -> bool) -> bool {
        let before = self.behind.len();
        let Self { by_id, behind, joining, .. } = self;
        behind.retain(|id| {
            let Some(watcher) = by_id.get_mut(id) else { return false };
            if !resume(watcher.next) {
                return true;
            }
            watcher.state = State::Joining;
            joining.push(*id);
            false
        });
        self.behind.len() < before
    }

    /// The stream has taken changes: those that were handed over have what the others have.
    pub fn settle(&mut self) {
        for id in self.joining.drain(..) {
            if let Some(watcher) = self.by_id.get_mut(&id)
                && watcher.state == State::Joining
            {
                watcher.state = State::Live;
            }
        }
    }

    /// The hub no longer has what comes next, which is nothing below `from`: all go on in the history.
    pub fn fall_behind(&mut self, from: Revision, sent: Revision) {
        self.joining.clear();
        for (id, watcher) in &mut self.by_id {
            if watcher.state != State::Behind {
                watcher.next = watcher.next_after(sent).max(from);
                watcher.state = State::Behind;
                self.behind.insert(*id);
            }
        }
    }

    /// Leads the first of the changes to those watches that read history, or to those that do not.
    pub fn shares(&self, sets: &[Arc<Published>], behind: bool) -> Shares {
        let mut places: BTreeMap<WatchId, Vec<usize>> = BTreeMap::new();
        let (mut found, mut looked_at) = (0, 0);
        for (place, set) in sets.iter().enumerate() {
            if found >= SHARES_MAX {
                break;
            }
            looked_at = place + 1;
            for record in &set.changes.records {
                self.by_key.each(&record.key, |id| {
                    if self.behind.contains(&id) != behind {
                        return;
                    }
                    let places = places.entry(id).or_default();
                    if places.last() != Some(&place) {
                        places.push(place);
                        found += 1;
                    }
                });
            }
        }
        Shares { looked_at, places }
    }
}

#[cfg(test)]
mod tests {
    use setpoint_store::{Change, ChangeSet, Record};
    use setpoint_types::KeyRange;

    use super::super::watcher::{Filters, WatchSpec};
    use super::*;

    fn watcher(range: KeyRange, next: u64, state: State) -> Watcher {
        let spec = WatchSpec {
            range,
            start: None,
            filters: Filters::default(),
            previous: false,
            progress: false,
            fragment: false,
        };
        Watcher { spec, next: Revision::new(next), state, active: false }
    }

    fn set(revision: u64, keys: &[&'static str]) -> Arc<Published> {
        let record = |key: &&'static str| Record {
            key: (*key).into(),
            replaced: None,
            change: Change::Delete,
            author: None,
        };
        let records = keys.iter().map(record).collect();
        Arc::new(Published::new(Arc::new(ChangeSet { revision: Revision::new(revision), records })))
    }

    #[test]
    fn a_change_is_led_only_to_the_watches_of_its_key() {
        let mut watches = Watches::default();
        for n in 0..1000 {
            watches.insert(n, watcher(KeyRange::Single(format!("k{n}").into()), 2, State::Live));
        }
        watches.insert(1000, watcher(KeyRange::From("k".into()), 2, State::Live));
        watches.insert(1001, watcher(KeyRange::Single("k7".into()), 1, State::Behind));
        let sets = [set(2, &["k7", "k7", "k8"]), set(3, &["x"]), set(4, &["k7"])];
        let shares = watches.shares(&sets, false);
        let expected = [(7, vec![0, 2]), (8, vec![0]), (1000, vec![0, 1, 2])];
        assert_eq!((shares.looked_at, shares.places), (3, expected.into()));
        assert_eq!(watches.shares(&sets, true).places, [(1001, vec![0, 2])].into());
    }

    #[test]
    fn many_watches_of_the_same_keys_get_their_shares_bit_by_bit() {
        let mut watches = Watches::default();
        let each = SHARES_MAX as i64 / 2;
        for n in 0..each {
            watches.insert(n, watcher(KeyRange::From("".into()), 2, State::Live));
        }
        let sets: Vec<_> = (2..7).map(|revision| set(revision, &["k"])).collect();
        let first = watches.shares(&sets, false);
        assert_eq!((first.looked_at, first.places.len()), (2, each as usize));
        assert_eq!(watches.shares(&sets[4..], false).looked_at, 1);
    }

    #[test]
    fn only_those_handed_over_still_want_what_the_others_were_sent() {
        let mut watches = Watches::default();
        watches.insert(0, watcher(KeyRange::From("".into()), 2, State::Live));
        watches.insert(1, watcher(KeyRange::From("".into()), 5, State::Behind));
        assert!(watches.hand_over(|next| next >= Revision::new(5)));
        assert_eq!((watches.behind(), watches.first_behind()), (0, None));
        let sent = Revision::new(10);
        let next = |watches: &Watches| -> Vec<u64> {
            watches.iter().map(|watcher| watcher.next_after(sent).get()).collect()
        };
        assert_eq!(next(&watches), [11, 5]);
        watches.settle();
        assert_eq!(next(&watches), [11, 11]);
        watches.fall_behind(Revision::new(9), sent);
        assert_eq!((watches.behind(), watches.first_behind()), (2, Some(Revision::new(11))));
    }
}
