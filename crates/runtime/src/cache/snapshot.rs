//! A state of a cache that holds still: what is there now, and, where the moment asked for is past, what was different then.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Bound;

use setpoint_client::Shape;
use setpoint_types::Revision;

use super::Key;
use super::entry::{Cached, Entry};
use super::index::Postings;
use super::pages::Pages;
use super::store::{Kept, entry};

/// The objects of one cache at one revision. Holds still, and is cheap to take and to clone: it shares what did not change since.
///
/// **Guarantees**: it is what the store held of the cache's selection at [`Snapshot::revision`], all of it and nothing from later (R1); its
/// indexes find the objects of that revision. **Does not promise** to be current. **Costs**, for as long as it is kept, the memory of
/// what has changed since: take one per run, and drop it.
#[derive(Clone)]
pub struct Snapshot {
    revision: Revision,
    objects: Pages<Key, Kept>,
    indexes: BTreeMap<&'static str, Postings>,
    /// What was different at the revision; none: it was not there.
    overlay: BTreeMap<Key, Option<Entry>>,
}

impl Snapshot {
    pub(super) fn new(
        revision: Revision,
        objects: Pages<Key, Kept>,
        indexes: BTreeMap<&'static str, Postings>,
        overlay: BTreeMap<Key, Option<Entry>>,
    ) -> Self {
        Self { revision, objects, indexes, overlay }
    }

    /// Before there is any state.
    pub(super) fn empty() -> Self {
        Self::new(Revision::NONE, Pages::default(), BTreeMap::new(), BTreeMap::new())
    }

    pub fn revision(&self) -> Revision {
        self.revision
    }

    pub fn get(&self, key: &Key) -> Option<Entry> {
        match self.overlay.get(key) {
            Some(then) => then.clone(),
            None => self.objects.get(key).map(entry),
        }
    }

    /// Everything, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = Entry> {
        self.from("", |_| true)
    }

    /// The objects of a namespace.
    pub fn namespace(&self, namespace: &str) -> impl Iterator<Item = Entry> + use<'_> {
        let prefix = format!("{namespace}/");
        self.from(&prefix.clone(), move |key| key.as_str().starts_with(&prefix))
    }

    /// From a key on, while the keys are such.
    fn from<'a, W>(&'a self, from: &str, within: W) -> impl Iterator<Item = Entry> + use<'a, W>
    where
        W: Fn(&Key) -> bool + Clone,
    {
        let (also, and) = (within.clone(), within);
        let mut now = self.objects.range_from(from).take_while(move |(key, _)| also(key)).peekable();
        let mut then = self
            .overlay
            .range::<str, _>((Bound::Included(from), Bound::Unbounded))
            .take_while(move |(key, _)| and(key))
            .peekable();
        std::iter::from_fn(move || {
            loop {
                match (now.peek(), then.peek()) {
                    (Some((here, _)), Some((there, _))) if here < there => return now.next().map(entry),
                    (Some(_), None) => return now.next().map(entry),
                    (None, None) => return None,
                    (here, Some((there, _))) => {
                        let replaced = here.is_some_and(|(here, _)| here == *there);
                        if replaced {
                            now.next();
                        }
                        if let Some((_, Some(entry))) = then.next() {
                            return Some(entry.clone());
                        }
                    }
                }
            }
        })
    }

    /// What an index finds under a value, in the order of the keys. Nothing if the cache has no such index.
    pub fn find(&self, index: &str, value: &str) -> Vec<Entry> {
        let Some(postings) = self.indexes.get(index) else { return Vec::new() };
        let now = postings.keys(value).filter(|key| !self.overlay.contains_key(*key));
        let mut found: Vec<Entry> = now.filter_map(|key| self.get(key)).collect();
        let has = |entry: &&Entry| {
            postings.index.values(entry).is_ok_and(|values| values.iter().any(|it| it == value))
        };
        let then = self.overlay.values().flatten().filter(has);
        let before = found.len();
        found.extend(then.cloned());
        if found.len() > before {
            found.sort_by(|one, other| one.key().cmp(other.key()));
        }
        found
    }

    pub fn typed<K: Shape>(self) -> View<K> {
        View { snapshot: self, shape: PhantomData }
    }
}

/// A [`Snapshot`] of a kind that is known. **Guarantees**: those of the snapshot.
pub struct View<K> {
    snapshot: Snapshot,
    shape: PhantomData<fn() -> K>,
}

impl<K: Shape> View<K> {
    pub fn revision(&self) -> Revision {
        self.snapshot.revision()
    }

    pub fn get(&self, key: &Key) -> Option<Cached<K>> {
        self.snapshot.get(key).map(Entry::typed)
    }

    pub fn iter(&self) -> impl Iterator<Item = Cached<K>> {
        self.snapshot.iter().map(Entry::typed)
    }

    pub fn namespace(&self, namespace: &str) -> impl Iterator<Item = Cached<K>> + use<'_, K> {
        self.snapshot.namespace(namespace).map(Entry::typed)
    }

    pub fn find(&self, index: &str, value: &str) -> Vec<Cached<K>> {
        self.snapshot.find(index, value).into_iter().map(Entry::typed).collect()
    }
}
