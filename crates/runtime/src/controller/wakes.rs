//! What made keys run, and from when a run must see things so as not to miss it. Pure.
//!
//! A joint snapshot is as old as its slowest cache, and can be from before the change that woke a run. So the newest revision that
//! woke each key is kept until the key runs. There is no room for all keys, and some are woken without a change; what stands for those
//! is one revision that none of their changes is later than.

use setpoint_types::Revision;

use super::recent::Recent;
use super::run::Wake;
use crate::cache::Key;

/// Keys that are remembered.
const KEYS_MAX: usize = 65_536;

/// Of one key, since it last ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Woken {
    /// Whatever woke the key is not later. Reached or not, by the caches it did not come from.
    pub not_before: Revision,
    /// The newest change, for records; none for a key that is run without one, or was forgotten.
    pub wake: Option<Wake>,
}

#[derive(Debug)]
pub(super) struct Wakes {
    keys: Recent<Key, Woken>,
    /// For keys that are not among them.
    others: Revision,
    newest: Revision,
}

impl Default for Wakes {
    fn default() -> Self {
        Self::with_room(KEYS_MAX)
    }
}

impl Wakes {
    fn with_room(keys_max: usize) -> Self {
        Self { keys: Recent::new(keys_max), others: Revision::NONE, newest: Revision::NONE }
    }

    /// A change of this revision wakes the key. `wake` tells of it, if it is one change.
    pub fn note(&mut self, key: Key, revision: Revision, wake: Option<Wake>) {
        self.newest = self.newest.max(revision);
        let before = self.keys.take(&key).unwrap_or_default();
        // Caches go side by side: the later change may have been told of first.
        let is_newest = revision >= before.not_before;
        let wake = if is_newest { wake.or(before.wake) } else { before.wake.or(wake) };
        let forgot = self.keys.put(key, Woken { not_before: before.not_before.max(revision), wake });
        if forgot {
            self.others = self.newest.max(self.others);
        }
    }

    /// Every key may have been woken, by changes up to this revision.
    pub fn note_all(&mut self, revision: Revision) {
        self.others = self.others.max(revision);
    }

    /// The key runs now.
    pub fn take(&mut self, key: &Key) -> Woken {
        let woken = self.keys.take(key).unwrap_or_default();
        Woken { not_before: woken.not_before.max(self.others), ..woken }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(number: u8) -> Key {
        Key::new("default", &number.to_string())
    }

    proptest! {
        #[test]
        fn no_run_is_told_to_look_before_what_woke_it(
            steps in proptest::collection::vec((0u8..20, any::<bool>(), 0u64..3), 1..200),
        ) {
            let (mut wakes, mut newest) = (Wakes::with_room(4), 10u64);
            let mut expected = std::collections::BTreeMap::<u8, u64>::new();
            for (number, runs, back) in steps {
                if runs {
                    let told = wakes.take(&key(number)).not_before;
                    prop_assert!(told.get() >= expected.remove(&number).unwrap_or(0));
                } else {
                    newest += 1;
                    let revision = newest - back;
                    wakes.note(key(number), Revision::new(revision), None);
                    let before = expected.entry(number).or_default();
                    *before = revision.max(*before);
                }
            }
        }
    }

    #[test]
    fn the_newest_change_is_the_one_that_is_told_of_whichever_came_first() {
        let mut wakes = Wakes::default();
        let wake = |revision| Wake {
            object: key(1).of_kind("Workload"),
            revision: Revision::new(revision),
            manager: String::new(),
            trace: None,
        };
        wakes.note(key(1), Revision::new(10), Some(wake(10)));
        wakes.note(key(1), Revision::new(7), Some(wake(7)));
        wakes.note(key(1), Revision::new(12), None);
        assert_eq!(wakes.take(&key(1)), Woken { not_before: Revision::new(12), wake: Some(wake(10)) });
        assert_eq!(wakes.take(&key(1)), Woken::default(), "it is told once");
        wakes.note_all(Revision::new(20));
        assert_eq!(wakes.take(&key(2)).not_before, Revision::new(20));
    }
}
