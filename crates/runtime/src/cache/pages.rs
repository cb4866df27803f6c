//! An ordered map that can be copied at once: pages of sorted entries, shared between copies until one of them changes.
//!
//! A copy costs one reference per page, not per entry; a change after it copies one page. So a snapshot of a hundred
//! thousand objects is taken in microseconds and holds still while the cache goes on. Pages are filled to the brim when they
//! come in order, as initial states do, and are half full at worst.

use std::sync::Arc;

/// Entries in a page: small enough to copy in a microsecond, large enough that pages are few.
const PAGE_MAX: usize = 64;

#[derive(Clone, Debug)]
pub struct Pages<K, V> {
    /// None is empty. In order, and ordered within.
    pages: Arc<Vec<Arc<Page<K, V>>>>,
    len: usize,
}

type Page<K, V> = Vec<(K, V)>;

impl<K, V> Default for Pages<K, V> {
    fn default() -> Self {
        Self { pages: Arc::default(), len: 0 }
    }
}

impl<K: Ord + Clone, V: Clone> Pages<K, V> {
    /// Of entries in ascending order, each key once.
    pub fn from_sorted(entries: Vec<(K, V)>) -> Self {
        debug_assert!(entries.is_sorted_by(|one, next| one.0 < next.0), "in order, each key once");
        let len = entries.len();
        let mut pages = Vec::with_capacity(len.div_ceil(PAGE_MAX));
        let mut entries = entries.into_iter();
        loop {
            let page: Page<K, V> = entries.by_ref().take(PAGE_MAX).collect();
            if page.is_empty() {
                return Self { pages: Arc::new(pages), len };
            }
            pages.push(Arc::new(page));
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Where the page is that has the key, or would have it.
    fn page_of<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: std::borrow::Borrow<Q>,
    {
        self.pages.partition_point(|page| page[0].0.borrow() <= key).saturating_sub(1)
    }

    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&(K, V)>
    where
        K: std::borrow::Borrow<Q>,
    {
        let page = self.pages.get(self.page_of(key))?;
        let place = page.binary_search_by(|(other, _)| other.borrow().cmp(key)).ok()?;
        page.get(place)
    }

    /// What was there before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let number = self.page_of(&key);
        let pages = Arc::make_mut(&mut self.pages);
        let Some(page) = pages.get_mut(number) else {
            pages.push(Arc::new(vec![(key, value)]));
            self.len += 1;
            return None;
        };
        let place = match page.binary_search_by(|(other, _)| other.cmp(&key)) {
            Ok(place) => return Some(std::mem::replace(&mut Arc::make_mut(page)[place].1, value)),
            Err(place) => place,
        };
        self.len += 1;
        if page.len() < PAGE_MAX {
            Arc::make_mut(page).insert(place, (key, value));
        } else if place == PAGE_MAX {
            pages.insert(number + 1, Arc::new(vec![(key, value)]));
        } else {
            let low = Arc::make_mut(page);
            let mut high = low.split_off(PAGE_MAX / 2);
            if place <= low.len() {
                low.insert(place, (key, value));
            } else {
                high.insert(place - PAGE_MAX / 2, (key, value));
            }
            pages.insert(number + 1, Arc::new(high));
        }
        None
    }

    /// What was there.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
    {
        let number = self.page_of(key);
        let place = self.pages.get(number)?.binary_search_by(|(other, _)| other.borrow().cmp(key)).ok()?;
        let pages = Arc::make_mut(&mut self.pages);
        let page = Arc::make_mut(&mut pages[number]);
        let (_, value) = page.remove(place);
        self.len -= 1;
        if page.is_empty() {
            pages.remove(number);
        } else if page.len() < PAGE_MAX / 4 && number + 1 < pages.len() {
            // Pages that are nearly empty would cost more than what is in them.
            let (here, next) = (pages[number].len(), pages[number + 1].len());
            if here + next <= PAGE_MAX {
                let next = pages.remove(number + 1);
                Arc::make_mut(&mut pages[number]).extend(Arc::unwrap_or_clone(next));
            }
        }
        Some(value)
    }

    /// Everything from a key on, in order.
    pub fn range_from<Q: Ord + ?Sized>(&self, from: &Q) -> impl Iterator<Item = &(K, V)> + use<'_, K, V, Q>
    where
        K: std::borrow::Borrow<Q>,
    {
        let number = self.page_of(from);
        let skip =
            self.pages.get(number).map_or(0, |page| page.partition_point(|(key, _)| key.borrow() < from));
        self.pages.iter().skip(number).flat_map(|page| page.iter()).skip(skip)
    }

    pub fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.pages.iter().flat_map(|page| page.iter())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn content(pages: &Pages<u16, u32>) -> Vec<(u16, u32)> {
        assert!(pages.pages.iter().all(|page| !page.is_empty() && page.len() <= PAGE_MAX));
        pages.iter().copied().collect()
    }

    proptest! {
        #[test]
        fn it_is_a_map_and_copies_hold_still(
            first in proptest::collection::btree_map(0u16..400, any::<u32>(), 0..300),
            steps in proptest::collection::vec((0u16..400, proptest::option::of(any::<u32>())), 0..400),
            at in 0usize..400,
        ) {
            let mut model = first.clone();
            let mut pages = Pages::from_sorted(first.into_iter().collect());
            let mut copy = (pages.clone(), model.clone());
            for (number, (key, value)) in steps.into_iter().enumerate() {
                match value {
                    Some(value) => prop_assert_eq!(pages.insert(key, value), model.insert(key, value)),
                    None => prop_assert_eq!(pages.remove(&key), model.remove(&key)),
                }
                if number == at {
                    copy = (pages.clone(), model.clone());
                }
            }
            prop_assert_eq!(pages.len(), model.len());
            prop_assert_eq!(content(&pages), model.iter().map(|(k, v)| (*k, *v)).collect::<Vec<_>>());
            prop_assert_eq!(content(&copy.0), copy.1.into_iter().collect::<Vec<_>>());
            for key in (0u16..400).step_by(7) {
                prop_assert_eq!(pages.get(&key).map(|it| it.1), model.get(&key).copied());
                let from: Vec<_> = pages.range_from(&key).map(|it| it.0).collect();
                prop_assert_eq!(from, model.range(key..).map(|it| *it.0).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn what_comes_in_order_fills_its_pages() {
        let mut pages = Pages::default();
        for key in 0u32..10_000 {
            pages.insert(key, ());
        }
        assert_eq!(pages.pages.len(), 10_000usize.div_ceil(PAGE_MAX));
        let _: BTreeMap<u32, ()> = pages.iter().copied().collect();
    }
}
