//! A map of bounded size that forgets what was not touched for longest. Pure.
//!
//! For what helps but is not needed: whoever asks for something forgotten goes on without it.

use std::collections::HashMap;
use std::hash::Hash;

/// Two generations: what was touched lately, and what was touched before that. When the first is full it becomes the second,
/// and what was in that is forgotten. So the half touched last is always there.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    half_max: usize,
}

impl<K: Eq + Hash, V> Recent<K, V> {
    /// Keeps at most so many, and at least half of it.
    pub fn new(entries_max: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), half_max: (entries_max / 2).max(1) }
    }

    /// True if others were forgotten for it.
    pub fn put(&mut self, key: K, value: V) -> bool {
        self.old.remove(&key);
        self.young.insert(key, value);
        if self.young.len() < self.half_max {
            return false;
        }
        !std::mem::replace(&mut self.old, std::mem::take(&mut self.young)).is_empty()
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    pub fn take(&mut self, key: &K) -> Option<V> {
        self.young.remove(key).or_else(|| self.old.remove(key))
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_small_and_keeps_what_was_touched_last() {
        let mut recent = Recent::new(10);
        for number in 0..1000 {
            recent.put(number, number);
            assert!(recent.len() <= 10);
            for late in (number - 4).max(0)..=number {
                assert_eq!(recent.get(&late), Some(&late), "after {number}");
            }
        }
        assert_eq!((recent.take(&999), recent.get(&999), recent.get(&1)), (Some(999), None, None));
    }
}
