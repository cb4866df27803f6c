//! A leaf of the index: up to `CAPACITY` keys, back to back in one buffer, and their states.

use std::ops::ControlFlow;

use super::KeyState;

/// Enough keys that a leaf's overhead vanishes, few enough that moving a leaf's tail costs less than finding it.
pub(super) const CAPACITY: usize = 64;

/// Key bytes grow in steps of this, because doubling would waste a third of the index.
const GROWTH: usize = 256;

#[derive(Default)]
pub(super) struct Leaf {
    keys: Vec<u8>,
    /// Where each key ends in `keys`; it starts where its predecessor ends.
    ends: Vec<u32>,
    states: Vec<KeyState>,
}

impl Leaf {
    pub fn len(&self) -> usize {
        self.states.len()
    }

    pub fn key(&self, at: usize) -> &[u8] {
        &self.keys[self.start(at)..self.ends[at] as usize]
    }

    fn start(&self, at: usize) -> usize {
        if at == 0 { 0 } else { self.ends[at - 1] as usize }
    }

    /// The position of the key, or the one it would be inserted at.
    pub fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            match self.key(middle).cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    pub fn get(&self, key: &[u8]) -> Option<&KeyState> {
        self.search(key).ok().map(|at| &self.states[at])
    }

    /// Sets a key; if that overfills the leaf, its upper part comes back as a new one.
    pub fn update(
        &mut self,
        key: &[u8],
        next: impl FnOnce(Option<KeyState>) -> KeyState,
    ) -> (Option<KeyState>, Option<Leaf>) {
        match self.search(key) {
            Ok(at) => {
                let previous = self.states[at];
                self.states[at] = next(Some(previous));
                (Some(previous), None)
            }
            Err(at) => {
                self.insert_at(at, key, next(None));
                if self.len() <= CAPACITY {
                    return (None, None);
                }
                // Keys loaded in order always land at the end: leave the full leaf full and start the next.
                let appended = at + 1 == self.len();
                let split = if appended { self.len() - 1 } else { self.len() / 2 };
                (None, Some(self.split_off(split)))
            }
        }
    }

    fn insert_at(&mut self, at: usize, key: &[u8], state: KeyState) {
        let start = self.start(at);
        if self.keys.capacity() - self.keys.len() < key.len() {
            self.keys.reserve_exact(key.len() + GROWTH);
        }
        if self.states.len() == self.states.capacity() {
            self.states.reserve_exact(8);
            self.ends.reserve_exact(8);
        }
        self.keys.splice(start..start, key.iter().copied());
        let length = key.len() as u32;
        self.ends.insert(at, start as u32);
        self.ends[at..].iter_mut().for_each(|end| *end += length);
        self.states.insert(at, state);
    }

    pub fn remove(&mut self, key: &[u8]) -> Option<KeyState> {
        let at = self.search(key).ok()?;
        let (start, end) = (self.start(at), self.ends[at] as usize);
        self.keys.drain(start..end);
        self.ends.remove(at);
        self.ends[at..].iter_mut().for_each(|other| *other -= (end - start) as u32);
        Some(self.states.remove(at))
    }

    fn split_off(&mut self, at: usize) -> Leaf {
        let cut = self.start(at);
        let mut right = Leaf {
            keys: self.keys[cut..].to_vec(),
            ends: self.ends[at..].to_vec(),
            states: self.states[at..].to_vec(),
        };
        right.ends.iter_mut().for_each(|end| *end -= cut as u32);
        self.keys.truncate(cut);
        self.ends.truncate(at);
        self.states.truncate(at);
        self.keys.shrink_to_fit();
        right
    }

    /// Appends all keys of a right neighbour.
    pub fn absorb(&mut self, right: Leaf) {
        let offset = self.keys.len() as u32;
        self.keys.extend_from_slice(&right.keys);
        self.ends.extend(right.ends.iter().map(|end| end + offset));
        self.states.extend_from_slice(&right.states);
    }

    pub fn visit(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
        visit: &mut impl FnMut(&[u8], &KeyState) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let from = self.search(start).unwrap_or_else(|at| at);
        for at in from..self.len() {
            let key = self.key(at);
            if end.is_some_and(|end| key >= end) {
                return ControlFlow::Break(());
            }
            visit(key, &self.states[at])?;
        }
        ControlFlow::Continue(())
    }
}
