//! The keys the queue knows, by number and by name. A key is hashed when it comes in, and then has a number.

use std::hash::{BuildHasher, Hash};
use std::ops::{Index, IndexMut};

use hashbrown::{DefaultHashBuilder, HashTable};

use super::slot::Slot;

#[derive(Debug)]
pub struct Slots<K> {
    slots: Vec<Option<Slot<K>>>,
    free: Vec<u32>,
    /// Never walked: the hasher has a seed of its own in every process, and the order decides nothing.
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl<K> Default for Slots<K> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            table: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }
}

impl<K: Eq + Hash> Slots<K> {
    pub fn hash(&self, key: &K) -> u64 {
        self.hasher.hash_one(key)
    }

    pub fn find(&self, hash: u64, key: &K) -> Option<u32> {
        let is_it = |id: &u32| self.slots[*id as usize].as_ref().is_some_and(|slot| *slot.key == *key);
        self.table.find(hash, is_it).copied()
    }
}

impl<K> Slots<K> {
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Adds a key that is not there.
    pub fn insert(&mut self, slot: Slot<K>) -> u32 {
        let hash = slot.hash;
        let id = match self.free.pop() {
            Some(id) => {
                self.slots[id as usize] = Some(slot);
                id
            }
            None => {
                self.slots.push(Some(slot));
                // Settings bound the keys far below the largest number.
                (self.slots.len() - 1) as u32
            }
        };
        let slots = &self.slots;
        self.table.insert_unique(hash, id, |id| slots[*id as usize].as_ref().map_or(0, |slot| slot.hash));
        id
    }

    pub fn remove(&mut self, id: u32) -> Option<Slot<K>> {
        let slot = self.slots[id as usize].take()?;
        if let Ok(entry) = self.table.find_entry(slot.hash, |other| *other == id) {
            entry.remove();
        }
        self.free.push(id);
        Some(slot)
    }
}

/// Of keys that are there: their number is forgotten with them.
impl<K> Index<u32> for Slots<K> {
    type Output = Slot<K>;

    fn index(&self, id: u32) -> &Slot<K> {
        self.slots[id as usize].as_ref().expect("a number is given up with its key")
    }
}

impl<K> IndexMut<u32> for Slots<K> {
    fn index_mut(&mut self, id: u32) -> &mut Slot<K> {
        self.slots[id as usize].as_mut().expect("a number is given up with its key")
    }
}
