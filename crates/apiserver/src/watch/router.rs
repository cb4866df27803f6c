//! Who watches a changed key: in the hub which streams, in a stream which watches.
//!
//! Nearly all watches are of one key or of a prefix. One key is looked up; prefixes are looked up once per distinct
//! prefix length, however many there are. Only ranges of other shapes are tried one by one.

use std::collections::BTreeMap;
use std::hash::Hash;

use bytes::Bytes;
// Every changed key is looked up: its hash is quicker than the standard library's.
use hashbrown::HashMap;
use setpoint_types::KeyRange;

/// A stream's place in the hub.
pub type Slot = usize;

/// Those who watch one range, and how many watches each has on it. Most ranges are watched by one, who takes no memory of
/// his own.
enum Watchers<W> {
    One(W, usize),
    Many(HashMap<W, usize>),
}

pub struct Router<W> {
    keys: HashMap<Bytes, Watchers<W>>,
    /// By length, so that a key is cut to each length that occurs.
    prefixes: BTreeMap<usize, HashMap<Bytes, Watchers<W>>>,
    others: HashMap<KeyRange, Watchers<W>>,
}

impl<W> Default for Router<W> {
    fn default() -> Self {
        Self { keys: HashMap::new(), prefixes: BTreeMap::new(), others: HashMap::new() }
    }
}

impl<W: Copy + Eq + Hash> Watchers<W> {
    fn add(&mut self, watcher: W) {
        match self {
            Self::One(only, count) if *only == watcher => *count += 1,
            Self::One(only, count) => *self = Self::Many([(*only, *count), (watcher, 1)].into()),
            Self::Many(watchers) => *watchers.entry(watcher).or_default() += 1,
        }
    }

    /// True if nobody is left.
    fn remove(&mut self, watcher: W) -> bool {
        match self {
            Self::One(only, count) => {
                *count -= usize::from(*only == watcher);
                *count == 0
            }
            Self::Many(watchers) => {
                if let Some(count) = watchers.get_mut(&watcher) {
                    *count -= 1;
                    if *count == 0 {
                        watchers.remove(&watcher);
                    }
                }
                watchers.is_empty()
            }
        }
    }

    fn each(&self, found: &mut impl FnMut(W)) {
        match self {
            Self::One(only, _) => found(*only),
            Self::Many(watchers) => watchers.keys().for_each(|watcher| found(*watcher)),
        }
    }
}

impl<W: Copy + Eq + Hash> Router<W> {
    pub fn add(&mut self, range: &KeyRange, watcher: W) {
        fn add_to<K: Eq + Hash, W: Copy + Eq + Hash>(map: &mut HashMap<K, Watchers<W>>, key: K, watcher: W) {
            let watchers = map.entry(key);
            watchers.and_modify(|watchers| watchers.add(watcher)).or_insert(Watchers::One(watcher, 1));
        }
        match range {
            KeyRange::Single(key) => add_to(&mut self.keys, key.clone(), watcher),
            range => match prefix(range) {
                Some(prefix) => add_to(self.prefixes.entry(prefix.len()).or_default(), prefix, watcher),
                None => add_to(&mut self.others, range.clone(), watcher),
            },
        }
    }

    pub fn remove(&mut self, range: &KeyRange, watcher: W) {
        fn remove_from<K: Eq + Hash, W: Copy + Eq + Hash>(
            map: &mut HashMap<K, Watchers<W>>,
            key: &K,
            watcher: W,
        ) {
            if map.get_mut(key).is_some_and(|watchers| watchers.remove(watcher)) {
                map.remove(key);
            }
        }
        match range {
            KeyRange::Single(key) => remove_from(&mut self.keys, key, watcher),
            range => match prefix(range) {
                Some(prefix) => {
                    let length = prefix.len();
                    let Some(of_length) = self.prefixes.get_mut(&length) else { return };
                    remove_from(of_length, &prefix, watcher);
                    if of_length.is_empty() {
                        self.prefixes.remove(&length);
                    }
                }
                None => remove_from(&mut self.others, range, watcher),
            },
        }
    }

    /// Calls `found` for each that watches the key; possibly more than once for one.
    pub fn each(&self, key: &[u8], mut found: impl FnMut(W)) {
        if let Some(watchers) = self.keys.get(key) {
            watchers.each(&mut found);
        }
        for (length, prefixes) in self.prefixes.range(..=key.len()) {
            if let Some(watchers) = prefixes.get(&key[..*length]) {
                watchers.each(&mut found);
            }
        }
        for (range, watchers) in &self.others {
            if range.contains(key) {
                watchers.each(&mut found);
            }
        }
    }
}

/// The prefix a range stands for, if it is one: its end is its start with the last byte that can be raised raised.
fn prefix(range: &KeyRange) -> Option<Bytes> {
    let KeyRange::Span { start, end } = range else { return None };
    let (last, head) = end.split_last()?;
    let before = last.checked_sub(1)?;
    let rest = start.strip_prefix(head)?.strip_prefix(&[before])?;
    rest.iter().all(|byte| *byte == 0xff).then(|| start.clone())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn found(router: &Router<Slot>, key: &[u8]) -> BTreeSet<Slot> {
        let mut slots = BTreeSet::new();
        router.each(key, |slot| {
            slots.insert(slot);
        });
        slots
    }

    fn range() -> impl Strategy<Value = KeyRange> {
        let key = || prop::collection::vec(prop::sample::select(vec![0u8, 1, b'a', b'b', 0xfe, 0xff]), 0..4);
        (key(), key(), 0..4u8).prop_map(|(start, end, kind)| match kind {
            0 => KeyRange::Single(start.into()),
            1 => KeyRange::From(start.into()),
            2 => KeyRange::Span { start: start.into(), end: end.into() },
            _ => {
                let mut end = start.clone();
                while end.last() == Some(&0xff) {
                    end.pop();
                }
                match end.last_mut() {
                    Some(last) => *last += 1,
                    None => return KeyRange::From(start.into()),
                }
                KeyRange::Span { start: start.into(), end: end.into() }
            }
        })
    }

    proptest! {
        /// The router finds exactly the streams with a range that contains the key, whatever its shape.
        #[test]
        fn equals_asking_every_range(ranges in prop::collection::vec(range(), 1..20),
                                     removed in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
                                     key in prop::collection::vec(prop::sample::select(vec![0u8, 1, b'a', b'b', 0xfe, 0xff]), 0..5)) {
            let mut router = Router::default();
            let mut live: Vec<_> = ranges.into_iter().enumerate().map(|(at, range)| (at % 5, range)).collect();
            for (slot, range) in &live {
                router.add(range, *slot);
            }
            for index in removed {
                if !live.is_empty() {
                    let (slot, range) = live.remove(index.index(live.len()));
                    router.remove(&range, slot);
                }
            }
            let expected: BTreeSet<_> = live.iter().filter(|(_, range)| range.contains(&key)).map(|(slot, _)| *slot).collect();
            prop_assert_eq!(found(&router, &key), expected);
            for (slot, range) in &live {
                router.remove(range, *slot);
            }
            prop_assert!(router.keys.is_empty() && router.prefixes.is_empty() && router.others.is_empty());
        }
    }
}
