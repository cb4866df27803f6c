//! A local copy of the objects of one kind, kept up to date by an informer.
//!
//! - [`store`]: the content and how it changes, pure; [`pages`] and [`index`] are what it is made of
//! - [`entry`], [`key`], [`delta`], [`transform`]: an object in it, its name, a change of it, and what is kept of it
//! - [`snapshot`], [`joint`]: one moment of one kind, and of several
//! - [`expectations`]: what a controller has written and must see before it decides again
//!
//! Objects are kept as they came, encoded, and read when asked for ([ADR 12](../../../docs/adr/0012-cache.md)).

mod delta;
mod entry;
mod expectations;
mod index;
mod joint;
mod key;
mod pages;
pub(crate) mod shared;
mod snapshot;
mod store;
mod transform;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

pub use delta::{Cause, Delta};
pub use entry::{Cached, Entry};
pub use expectations::{Expectations, Pending};
pub use index::Index;
pub use joint::Joint;
pub(crate) use joint::Watermarks;
pub use key::Key;
use setpoint_client::Shape;
use setpoint_types::{FieldProblem, Revision};
pub use shared::Observer;
use shared::Shared;
pub use snapshot::{Snapshot, View};
pub use store::{Malformed, Store};
pub use transform::Transform;

use crate::informer::Stats;

/// The objects of one kind and selection, here. Cheap to clone; clones are the same cache.
///
/// **Guarantees**
/// - Its content is at every moment the content of the store at [`Cache::revision`]: no change is missing up to there, none is
///   from later, and a whole state that replaces another does so at once.
/// - The revision never goes back, unless the cluster itself was restored from a backup.
/// - Observers are told of every object whose state changed, in order, after the cache has it; and of deletions also when they
///   happened while the cache was not looking.
///
/// **Assumes** that [`crate::informer::Informers`] it came from is not shut down.
///
/// **Does not promise** to be current: it is behind by a network's delay, or by minutes while no server answers. Decide by it,
/// but let the write prove it: with a revision, a guard, a fence. Nor that every state between two is seen.
pub struct Cache<K> {
    shared: Arc<Shared>,
    shape: PhantomData<fn() -> K>,
}

/// The informer was shut down before it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cache is no longer fed")]
pub struct Ended;

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), shape: PhantomData }
    }
}

impl<K> fmt::Debug for Cache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cache({}@{:?})", self.shared.kind, self.shared.position())
    }
}

impl<K: Shape> Cache<K> {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, shape: PhantomData }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub fn kind(&self) -> &str {
        &self.shared.kind
    }

    pub fn get(&self, key: &Key) -> Option<Cached<K>> {
        self.shared.store().get(key).map(Entry::typed)
    }

    /// The object, read. None if there is none.
    pub fn read(&self, key: &Key) -> Result<Option<K::Object>, FieldProblem> {
        self.get(key).map(|cached| cached.read()).transpose()
    }

    pub fn len(&self) -> usize {
        self.shared.store().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The size of all objects as they are kept, without keys and indexes.
    pub fn encoded_bytes(&self) -> usize {
        self.shared.store().encoded_bytes()
    }

    /// Everything as it is now, holding still. Before the first state it is empty, at revision 0.
    pub fn snapshot(&self) -> View<K> {
        let store = self.shared.store();
        let snapshot = store.position().and_then(|position| store.snapshot(position));
        snapshot.unwrap_or_else(Snapshot::empty).typed()
    }

    /// Adds an index; nothing happens if there is one of its name.
    pub fn add_index(&self, index: Index) {
        self.shared.add_index(index);
    }

    /// What an index finds under a value. Nothing if there is no such index.
    pub fn find(&self, index: &str, value: &str) -> Vec<Cached<K>> {
        self.snapshot().find(index, value)
    }

    /// Calls the observer for everything that is there, then for every change.
    pub fn observe(&self, observer: Observer) {
        self.shared.observe(observer);
    }

    /// Everything up to here is in; none before the first state.
    pub fn revision(&self) -> Option<Revision> {
        self.shared.position()
    }

    /// Waits for the first state.
    pub async fn synced(&self) -> Result<(), Ended> {
        self.at_least(Revision::NONE).await.map(drop)
    }

    /// Waits until everything up to the revision is in, and tells what is.
    ///
    /// Drop it, or put a timeout around it, to stop waiting. A revision the cluster never reaches is waited for for ever.
    pub async fn at_least(&self, revision: Revision) -> Result<Revision, Ended> {
        let mut positions = self.shared.positions();
        let reached = |position: &Option<Revision>| position.is_some_and(|position| position >= revision);
        tokio::select! {
            biased;
            reached = positions.wait_for(reached) => match reached {
                Ok(position) => Ok(position.unwrap_or_default()),
                Err(_) => Err(Ended),
            },
            () = self.shared.counters.ended() => Err(Ended),
        }
    }

    /// How the informer behind it fares.
    pub fn stats(&self) -> Stats {
        self.shared.counters.read(self.shared.store().unreadable())
    }
}
