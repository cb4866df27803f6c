//! Which streams a changed key concerns.
//!
//! Nearly all watches are of one key or of a prefix. One key is looked up; prefixes are looked up once per distinct
//! prefix length, however many there are. Only ranges of other shapes are tried one by one.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use setpoint_types::KeyRange;

/// A stream's place in the hub.
pub type Slot = usize;

/// The streams that watch one range, and how many watches each has on it.
type Watchers = HashMap<Slot, usize>;

#[derive(Default)]
pub struct Router {
    keys: HashMap<Bytes, Watchers>,
    /// By length, so that a key is cut to each length that occurs.
    prefixes: BTreeMap<usize, HashMap<Bytes, Watchers>>,
    others: HashMap<KeyRange, Watchers>,
}

impl Router {
    pub fn add(&mut self, range: &KeyRange, slot: Slot) {
        *self.entry(range).entry(slot).or_default() += 1;
    }

    pub fn remove(&mut self, range: &KeyRange, slot: Slot) {
        let watchers = self.entry(range);
        if let Some(count) = watchers.get_mut(&slot) {
            *count -= 1;
            if *count == 0 {
                watchers.remove(&slot);
            }
        }
        if watchers.is_empty() {
            self.forget(range);
        }
    }

    /// Calls `found` for each stream that watches the key; possibly more than once for one stream.
    pub fn each(&self, key: &[u8], mut found: impl FnMut(Slot)) {
        let mut add = |watchers: &Watchers| watchers.keys().for_each(|slot| found(*slot));
        if let Some(watchers) = self.keys.get(key) {
            add(watchers);
        }
        for (length, prefixes) in self.prefixes.range(..=key.len()) {
            if let Some(watchers) = prefixes.get(&key[..*length]) {
                add(watchers);
            }
        }
        for (range, watchers) in &self.others {
            if range.contains(key) {
                add(watchers);
            }
        }
    }

    fn entry(&mut self, range: &KeyRange) -> &mut Watchers {
        match range {
            KeyRange::Single(key) => self.keys.entry(key.clone()).or_default(),
            range => match prefix(range) {
                Some(prefix) => self.prefixes.entry(prefix.len()).or_default().entry(prefix).or_default(),
                None => self.others.entry(range.clone()).or_default(),
            },
        }
    }

    fn forget(&mut self, range: &KeyRange) {
        match range {
            KeyRange::Single(key) => {
                self.keys.remove(key);
            }
            range => match prefix(range) {
                Some(prefix) => {
                    let length = prefix.len();
                    let of_length = self.prefixes.entry(length).or_default();
                    of_length.remove(&prefix);
                    if of_length.is_empty() {
                        self.prefixes.remove(&length);
                    }
                }
                None => {
                    self.others.remove(range);
                }
            },
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

    fn found(router: &Router, key: &[u8]) -> BTreeSet<Slot> {
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
