//! Objects that came, went or changed their labels or fields of late: so the index also knows what was selected a little
//! while ago, which a later page of a list asks for.
//!
//! Whatever is not among them has the labels and fields it had then. Bounded: what is asked about a time further back is not
//! known here, and scanned.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use setpoint_types::Revision;

/// Of one kind. Looking at each of them again costs about as much as scanning ten times as many.
const MOVED_MAX: usize = 4_096;
/// About what each costs, its name included.
const MOVED_BYTES: usize = 80;

#[derive(Default)]
pub struct Moved {
    /// By when they were seen, oldest first.
    recent: VecDeque<(Revision, Arc<str>)>,
    /// It has all that moved after this; none while the index is being built.
    since: Option<Revision>,
}

impl Moved {
    /// Everything up to a revision is in the index; from here on it follows.
    pub fn follow(&mut self, from: Revision) {
        self.since = Some(from);
    }

    /// Something moved at a revision or a little before it.
    pub fn note(&mut self, name: &Arc<str>, at: Revision) {
        if self.since.is_none() {
            return;
        }
        if self.recent.len() == MOVED_MAX
            && let Some((forgotten, _)) = self.recent.pop_front()
        {
            self.since = Some(forgotten);
        }
        self.recent.push_back((at, name.clone()));
    }

    /// Everything that moved after a revision, and perhaps more; none if that is not known any more.
    pub fn after(&self, revision: Revision) -> Option<BTreeSet<Arc<str>>> {
        let known = self.since.is_some_and(|since| since <= revision);
        let later = self.recent.iter().rev().take_while(|(at, _)| *at > revision);
        known.then(|| later.map(|(_, name)| name.clone()).collect())
    }

    pub fn bytes(&self) -> usize {
        self.recent.len() * MOVED_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moved_is_known_back_to_where_it_was_forgotten() {
        let mut moved = Moved::default();
        let name = |number: usize| Arc::from(number.to_string());
        moved.note(&name(0), Revision::new(5));
        assert_eq!(moved.after(Revision::new(5)), None, "it was being built");
        moved.follow(Revision::new(10));
        for number in 1..=MOVED_MAX {
            moved.note(&name(number), Revision::new(10 + number as u64));
        }
        let after = |moved: &Moved, revision| moved.after(Revision::new(revision)).map(|names| names.len());
        assert_eq!((after(&moved, 9), after(&moved, 10)), (None, Some(MOVED_MAX)));
        moved.note(&name(1), Revision::new(20 + MOVED_MAX as u64));
        assert_eq!((after(&moved, 10), after(&moved, 11)), (None, Some(MOVED_MAX)));
        let newest: Vec<_> =
            moved.after(Revision::new(10 + MOVED_MAX as u64)).into_iter().flatten().collect();
        assert_eq!(newest, [name(1)]);
        assert_eq!(moved.recent.len(), MOVED_MAX);
    }
}
