//! What all handles of a cache share: its content behind a lock, its position, and those who are told of changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use setpoint_api::raw::ReceivedEvent;
use setpoint_client::Scope;
use setpoint_types::Revision;
use tokio::sync::watch;

use super::delta::Delta;
use super::index::Index;
use super::joint::Watermarks;
use super::store::{Malformed, Store};
use super::transform::Transform;
use crate::informer::Counters;

/// Told of every change, in order, after the cache has taken it in. Called by the task that feeds the cache: it must neither
/// wait nor add observers.
pub type Observer = Box<dyn Fn(&Delta) + Send + Sync>;

pub(crate) struct Shared {
    pub kind: Arc<str>,
    pub scope: Scope,
    store: RwLock<Store>,
    /// Held while a change is taken in and told of, so that each observer sees each change once and in order.
    observers: Mutex<Vec<Observer>>,
    position: watch::Sender<Option<Revision>>,
    mark: Arc<AtomicU64>,
    group: Arc<Watermarks>,
    pub counters: Counters,
}

impl Shared {
    pub fn new(
        kind: Arc<str>,
        scope: Scope,
        transform: Option<Transform>,
        group: Arc<Watermarks>,
    ) -> Arc<Self> {
        Arc::new(Self {
            kind,
            scope,
            store: RwLock::new(Store::new(transform)),
            observers: Mutex::default(),
            position: watch::Sender::new(None),
            mark: group.join(),
            group,
            counters: Counters::default(),
        })
    }

    /// Tells caches apart while they live.
    pub fn id(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }

    pub fn store(&self) -> RwLockReadGuard<'_, Store> {
        self.store.read()
    }

    pub fn position(&self) -> Option<Revision> {
        *self.position.borrow()
    }

    pub fn positions(&self) -> watch::Receiver<Option<Revision>> {
        self.position.subscribe()
    }

    pub fn add_index(&self, index: Index) {
        self.store.write().add_index(index);
    }

    /// Tells of everything that is there, then of every change.
    pub fn observe(&self, observer: Observer) {
        let mut observers = self.observers.lock();
        let snapshot = {
            let store = self.store.read();
            store.position().and_then(|position| store.snapshot(position))
        };
        for entry in snapshot.iter().flat_map(|snapshot| snapshot.iter()) {
            observer(&Delta::initial(entry));
        }
        observers.push(observer);
    }

    pub fn begin(&self) {
        self.store.write().begin();
    }

    pub fn stage(&self, events: &[ReceivedEvent]) -> Result<(), Malformed> {
        self.store.write().stage(events)
    }

    pub fn finish(&self, at: Revision) {
        let observers = self.observers.lock();
        let deltas = self.store.write().finish(at);
        self.tell(&observers, &deltas, at);
    }

    pub fn apply(&self, events: &[ReceivedEvent], position: Revision) -> Result<(), Malformed> {
        let observers = self.observers.lock();
        // Marked first: its own place is not what this one waits for.
        self.mark.store(position.get(), Ordering::Release);
        let deltas = self.store.write().apply(events, position, self.group.low())?;
        self.tell(&observers, &deltas, position);
        Ok(())
    }

    /// The position moves last: whoever waited for it finds that everybody was told.
    fn tell(&self, observers: &[Observer], deltas: &[Delta], position: Revision) {
        for delta in deltas {
            observers.iter().for_each(|observer| observer(delta));
        }
        self.mark.store(position.get(), Ordering::Release);
        self.position.send_replace(Some(position));
        self.group.moved.notify_waiters();
    }
}
