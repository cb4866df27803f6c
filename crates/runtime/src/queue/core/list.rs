//! Lists of things that are kept elsewhere, by their numbers. Adding, and removing from anywhere, costs the same few steps
//! and no memory of its own.
//!
//! A list does not have its links; several lists share one table of them, as long as no thing is in two of those lists.

/// No thing.
const NONE: u32 = u32::MAX;

/// The neighbours of one thing in whatever list it is in.
#[derive(Clone, Copy, Debug)]
pub struct Links {
    before: u32,
    after: u32,
}

/// The neighbours of every thing, by its number.
#[derive(Clone, Debug, Default)]
pub struct LinkTable(Vec<Links>);

impl LinkTable {
    /// Makes room for a thing with this number.
    pub fn reserve(&mut self, id: u32) {
        let needed = id as usize + 1;
        if self.0.len() < needed {
            self.0.resize(needed, Links { before: NONE, after: NONE });
        }
    }

    fn at(&mut self, id: u32) -> &mut Links {
        &mut self.0[id as usize]
    }
}

/// The ends of a list.
#[derive(Clone, Copy, Debug)]
pub struct List {
    first: u32,
    last: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl List {
    pub fn is_empty(&self) -> bool {
        self.first == NONE
    }

    pub fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// Adds at the end what is in no list of this table.
    pub fn push(&mut self, links: &mut LinkTable, id: u32) {
        *links.at(id) = Links { before: self.last, after: NONE };
        match self.last {
            NONE => self.first = id,
            last => links.at(last).after = id,
        }
        self.last = id;
    }

    /// Removes what is in this list.
    pub fn remove(&mut self, links: &mut LinkTable, id: u32) {
        let Links { before, after } = *links.at(id);
        match before {
            NONE => self.first = after,
            before => links.at(before).after = after,
        }
        match after {
            NONE => self.last = before,
            after => links.at(after).before = before,
        }
    }

    /// Removes the first.
    pub fn pop(&mut self, links: &mut LinkTable) -> Option<u32> {
        let first = self.first()?;
        self.remove(links, first);
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drained(mut list: List, links: &mut LinkTable) -> Vec<u32> {
        std::iter::from_fn(|| list.pop(links)).collect()
    }

    #[test]
    fn a_list_keeps_its_order_whatever_is_removed() {
        for removed in 0..4 {
            let (mut links, mut list) = (LinkTable::default(), List::default());
            for id in 0..4 {
                links.reserve(id);
                list.push(&mut links, id);
            }
            list.remove(&mut links, removed);
            list.push(&mut links, removed);
            let mut expected: Vec<u32> = (0..4).filter(|id| *id != removed).collect();
            expected.push(removed);
            assert_eq!(drained(list, &mut links), expected);
        }
    }

    #[test]
    fn an_emptied_list_can_be_filled_again() {
        let (mut links, mut list) = (LinkTable::default(), List::default());
        links.reserve(0);
        list.push(&mut links, 0);
        list.remove(&mut links, 0);
        assert!(list.is_empty());
        list.push(&mut links, 0);
        assert_eq!(drained(list, &mut links), [0]);
    }
}
