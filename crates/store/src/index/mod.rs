//! The live keys, in memory and in order: what each key's newest revision is, and how many keys lie in a range.
//!
//! A B+-tree whose inner nodes know how many keys are below each child, so a count costs O(log n) and never touches a
//! value. Leaves pack their keys into one buffer: a million keys of 40 bytes cost about 90 MB, and a search runs over
//! adjacent memory. Only the newest, undeleted version of a key is here; older ones are in the `Keys` table on disk.
//!
//! Not here: values, tombstones, history, locking.

mod leaf;
mod node;

use std::ops::ControlFlow;

use setpoint_types::{KeyRange, LeaseId, Revision};

use node::Node;

/// Where the newest version of a key is, and what a compare may ask about it without reading its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyState {
    pub modified: Revision,
    pub created: Revision,
    pub version: u64,
    pub lease: LeaseId,
    /// The position of the change within its revision.
    pub sub: u32,
}

/// The ordered set of live keys.
#[derive(Default)]
pub struct Index {
    root: Node,
}

impl Index {
    pub fn len(&self) -> usize {
        self.root.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, key: &[u8]) -> Option<&KeyState> {
        self.root.get(key)
    }

    /// Sets a key's state and returns the one it had.
    pub fn insert(&mut self, key: &[u8], state: KeyState) -> Option<KeyState> {
        self.update(key, |_| state)
    }

    /// As `insert`, for a state that follows from the one it had; one search for both.
    pub fn update(
        &mut self,
        key: &[u8],
        next: impl FnOnce(Option<KeyState>) -> KeyState,
    ) -> Option<KeyState> {
        let (previous, split) = self.root.update(key, next);
        if let Some(right) = split {
            let left = std::mem::take(&mut self.root);
            self.root = Node::parent(left, right);
        }
        previous
    }

    pub fn remove(&mut self, key: &[u8]) -> Option<KeyState> {
        let removed = self.root.remove(key);
        self.root.shrink_root();
        removed
    }

    /// How many live keys lie in the range.
    pub fn count(&self, range: &KeyRange) -> usize {
        if let KeyRange::Single(key) = range {
            return usize::from(self.get(key).is_some());
        }
        let end = range.end().map_or(self.len(), |end| self.root.rank(&end));
        end.saturating_sub(self.root.rank(range.start()))
    }

    /// Calls `visit` for each live key in the range, in order, until it breaks.
    pub fn visit(&self, range: &KeyRange, mut visit: impl FnMut(&[u8], &KeyState) -> ControlFlow<()>) {
        match range {
            KeyRange::Single(key) => {
                if let Some(state) = self.get(key) {
                    let _ = visit(key, state);
                }
            }
            KeyRange::Span { start, end } => {
                let _ = self.root.visit(start, Some(end), &mut visit);
            }
            KeyRange::From(start) => {
                let _ = self.root.visit(start, None, &mut visit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn state(revision: u64) -> KeyState {
        KeyState {
            modified: Revision::new(revision),
            created: Revision::new(revision),
            version: 1,
            lease: LeaseId::NONE,
            sub: 0,
        }
    }

    fn contents(index: &Index, range: &KeyRange) -> Vec<(Vec<u8>, u64)> {
        let mut found = Vec::new();
        index.visit(range, |key, state| {
            found.push((key.to_vec(), state.modified.get()));
            ControlFlow::Continue(())
        });
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever is inserted and removed in whatever order, the index equals a plain ordered map, in content and in counts.
        #[test]
        fn equals_an_ordered_map(steps in prop::collection::vec((any::<u16>(), prop::bool::weighted(0.65)), 1..3000),
                                 bounds in prop::collection::vec((any::<u16>(), any::<u16>()), 1..10)) {
            let name = |n: u16| format!("/registry/{:04}/{n}", n % 97).into_bytes();
            let mut index = Index::default();
            let mut model = BTreeMap::new();
            for (step, (n, insert)) in steps.into_iter().enumerate() {
                let key = name(n % 2500);
                if insert {
                    let previous = index.insert(&key, state(step as u64));
                    prop_assert_eq!(previous, model.insert(key, state(step as u64)));
                } else {
                    prop_assert_eq!(index.remove(&key), model.remove(&key));
                }
                prop_assert_eq!(index.len(), model.len());
            }
            for (from, to) in bounds {
                let (start, end) = (name(from % 2500), name(to % 2500));
                let range = KeyRange::Span { start: start.clone().into(), end: end.clone().into() };
                let expected: Vec<_> = model.iter().filter(|(key, _)| **key >= start && **key < end)
                    .map(|(key, state)| (key.clone(), state.modified.get())).collect();
                prop_assert_eq!(index.count(&range), expected.len());
                prop_assert_eq!(contents(&index, &range), expected);
                prop_assert_eq!(index.get(&start), model.get(&start));
            }
            let all = KeyRange::From(Bytes::new());
            prop_assert_eq!(contents(&index, &all).len(), model.len());
        }
    }

    #[test]
    fn keys_loaded_in_order_fill_their_leaves() {
        let mut index = Index::default();
        for n in 0..100_000u64 {
            index.insert(format!("/registry/pods/{n:08}").as_bytes(), state(n));
        }
        assert_eq!(index.len(), 100_000);
        assert!(index.root.leaves() <= 100_000 / (leaf::CAPACITY - 1) + 2, "{} leaves", index.root.leaves());
    }

    /// Three levels: inner nodes split, empty their first child, take smaller keys than it had, and merge.
    #[test]
    fn a_deep_index_finds_every_key_while_it_shrinks_and_grows() {
        let (mut index, mut model) = (Index::default(), BTreeMap::new());
        let mut random = 7u64;
        let mut below = |bound: u64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) % bound
        };
        for n in 0..20_000u64 {
            index.insert(&n.to_be_bytes(), state(n));
            model.insert(n.to_be_bytes(), state(n));
        }
        for round in 0..300 {
            let start = below(20_000);
            for n in start..start + below(1_500) {
                assert_eq!(
                    index.remove(&n.to_be_bytes()),
                    model.remove(&n.to_be_bytes()),
                    "round {round}, {n}"
                );
            }
            for n in (0..below(60)).map(|_| below(20_000)) {
                let previous = index.insert(&n.to_be_bytes(), state(n));
                assert_eq!(previous, model.insert(n.to_be_bytes(), state(n)), "round {round}, {n}");
            }
            if round % 100 == 99 {
                for n in below(20_000)..20_000 {
                    index.insert(&n.to_be_bytes(), state(n));
                    model.insert(n.to_be_bytes(), state(n));
                }
            }
            assert_eq!(index.len(), model.len(), "round {round}");
        }
        let kept: Vec<_> = model.iter().map(|(key, state)| (key.to_vec(), state.modified.get())).collect();
        assert_eq!(contents(&index, &KeyRange::From(Bytes::new())), kept);
    }

    #[test]
    fn an_emptied_index_is_usable_again() {
        let mut index = Index::default();
        for round in 0..3 {
            for n in 0..5000u64 {
                assert_eq!(index.insert(&n.to_be_bytes(), state(n)), None, "round {round}");
            }
            for n in (0..5000u64).rev() {
                assert!(index.remove(&n.to_be_bytes()).is_some());
            }
            assert!(index.is_empty() && index.root.leaves() == 1);
        }
    }
}
