//! Where apply meets the watch streams.
//!
//! `publish` keeps the new changes in the ring and wakes the streams they concern, telling each the first revision it has
//! not looked at; a stream nothing concerns is not woken. Registering a watch and publishing take the same lock, so a
//! watch either finds a revision in the history it reads or is woken for it: none falls between.

use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_store::ChangeSet;
use setpoint_types::{KeyRange, Revision};
use tokio::sync::Notify;

use super::ring::{Published, Ring};
use super::router::{Router, Slot};
use super::shelf::Shelf;

/// Of the ring's bytes, the share that replaced values may take besides. Enough for the newest changes, which is what many
/// streams ask for at once.
const SHELF_SHARE: usize = 4;

pub struct Hub {
    inner: Mutex<Inner>,
    /// For those who wait for a revision and not for changes.
    advanced: Notify,
    shelf: Arc<Shelf>,
}

struct Inner {
    ring: Ring,
    router: Router<Slot>,
    streams: Vec<Option<Stream>>,
    free: Vec<Slot>,
}

struct Stream {
    wake: Arc<Notify>,
    /// A client's; others are counted once they report watches.
    counted: bool,
    load: Load,
    /// The first revision that concerns the stream and that it has not taken.
    pending: Option<Revision>,
}

/// How many watches a stream has, and how many of them read history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    pub watchers: usize,
    pub behind: usize,
}

/// What all streams together amount to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub streams: usize,
    pub watchers: usize,
    pub behind: usize,
}

/// What a stream finds when it looks for new changes.
pub enum Taken {
    /// Everything that concerns it up to and including `until`.
    Changes { sets: Vec<Arc<Published>>, until: Revision },
    /// The ring no longer holds what comes next; read the history from here.
    Behind { from: Revision },
}

impl Hub {
    /// `newest` is the store's revision when nothing is applied yet.
    pub fn new(newest: Revision, ring_bytes_max: usize) -> Self {
        let ring = Ring::new(newest, ring_bytes_max);
        Self {
            inner: Mutex::new(Inner {
                ring,
                router: Router::default(),
                streams: Vec::new(),
                free: Vec::new(),
            }),
            advanced: Notify::new(),
            shelf: Arc::new(Shelf::new(ring_bytes_max / SHELF_SHARE)),
        }
    }

    /// The last revision whose changes watchers can see.
    pub fn newest(&self) -> Revision {
        self.inner.lock().ring.newest()
    }

    pub fn publish(&self, changes: Vec<Arc<ChangeSet>>) {
        if changes.is_empty() {
            return;
        }
        let mut woken: Vec<Arc<Notify>> = Vec::new();
        let mut inner = self.inner.lock();
        let Inner { ring, router, streams, .. } = &mut *inner;
        for set in changes {
            for record in &set.records {
                router.each(&record.key, |slot| {
                    if let Some(Some(stream)) = streams.get_mut(slot)
                        && stream.pending.is_none()
                    {
                        stream.pending = Some(set.revision);
                        woken.push(stream.wake.clone());
                    }
                });
            }
            ring.push(Arc::new(self.shelved(set)));
        }
        drop(inner);
        woken.iter().for_each(|wake| wake.notify_one());
        self.advanced.notify_waiters();
    }

    /// Returns once watchers can see a revision.
    pub async fn reached(&self, revision: Revision) {
        loop {
            // Made before the look, so that nothing published after it is missed.
            let advanced = self.advanced.notified();
            if self.newest() >= revision {
                return;
            }
            advanced.await;
        }
    }

    /// Changes for watchers, published or read from the history, that share what they replaced.
    pub fn shelved(&self, changes: Arc<ChangeSet>) -> Published {
        Published::shelved(changes, self.shelf.clone())
    }

    /// The state was replaced by a snapshot at `newest`: every stream goes back to the history.
    pub fn reset(&self, newest: Revision) {
        let mut inner = self.inner.lock();
        let before = inner.ring.newest();
        inner.ring.reset(newest);
        self.shelf.clear();
        for stream in inner.streams.iter_mut().flatten() {
            stream.pending.get_or_insert(before.successor());
            stream.wake.notify_one();
        }
        drop(inner);
        self.advanced.notify_waiters();
    }

    pub fn open_stream(&self, wake: Arc<Notify>) -> Slot {
        self.open(wake, true)
    }

    /// A stream that is nobody's watch, unless it reports to be one.
    pub fn open_follower(&self, wake: Arc<Notify>) -> Slot {
        self.open(wake, false)
    }

    fn open(&self, wake: Arc<Notify>, counted: bool) -> Slot {
        let mut inner = self.inner.lock();
        let stream = Some(Stream { wake, counted, load: Load::default(), pending: None });
        match inner.free.pop() {
            Some(slot) => {
                inner.streams[slot] = stream;
                slot
            }
            None => {
                inner.streams.push(stream);
                inner.streams.len() - 1
            }
        }
    }

    /// The caller has removed its watches.
    pub fn close_stream(&self, slot: Slot) {
        let mut inner = self.inner.lock();
        inner.streams[slot] = None;
        inner.free.push(slot);
    }

    /// Starts waking the stream for a range, and returns the last revision it will not be woken for.
    pub fn watch(&self, slot: Slot, range: &KeyRange) -> Revision {
        let mut inner = self.inner.lock();
        inner.router.add(range, slot);
        inner.ring.newest()
    }

    pub fn unwatch(&self, slot: Slot, range: &KeyRange) {
        self.inner.lock().router.remove(range, slot);
    }

    /// True, and the stream will be given everything from `next` on, if the ring still holds that.
    pub fn resume(&self, slot: Slot, next: Revision) -> bool {
        let mut inner = self.inner.lock();
        if !inner.ring.reaches(next) {
            return false;
        }
        if next <= inner.ring.newest()
            && let Some(stream) = &mut inner.streams[slot]
        {
            stream.pending = Some(stream.pending.map_or(next, |pending| pending.min(next)));
        }
        true
    }

    /// Takes what is new for the stream.
    pub fn take(&self, slot: Slot) -> Taken {
        let mut inner = self.inner.lock();
        let until = inner.ring.newest();
        let pending = inner.streams[slot].as_mut().and_then(|stream| stream.pending.take());
        match pending {
            None => Taken::Changes { sets: Vec::new(), until },
            Some(from) if inner.ring.reaches(from) => Taken::Changes { sets: inner.ring.since(from), until },
            Some(from) => Taken::Behind { from },
        }
    }

    /// Takes at most so many revisions of what is new for the stream. If more are left, the stream is not woken for them:
    /// it takes again until nothing is left.
    pub fn take_some(&self, slot: Slot, revisions_max: usize) -> Taken {
        let mut inner = self.inner.lock();
        let newest = inner.ring.newest();
        let Some(from) = inner.streams[slot].as_mut().and_then(|stream| stream.pending.take()) else {
            return Taken::Changes { sets: Vec::new(), until: newest };
        };
        if !inner.ring.reaches(from) {
            return Taken::Behind { from };
        }
        let sets = inner.ring.some_since(from, revisions_max);
        let until = sets.last().map_or(newest, |last| last.revision());
        if until < newest
            && let Some(stream) = &mut inner.streams[slot]
        {
            stream.pending = Some(until.successor());
        }
        Taken::Changes { sets, until }
    }

    /// A stream says what it has, for the counts.
    pub fn report(&self, slot: Slot, load: Load) {
        if let Some(stream) = &mut self.inner.lock().streams[slot] {
            stream.load = load;
        }
    }

    pub fn counts(&self) -> Counts {
        let inner = self.inner.lock();
        let mut counts = Counts::default();
        for stream in inner.streams.iter().flatten() {
            counts.streams += usize::from(stream.counted || stream.load.watchers > 0);
            counts.watchers += stream.load.watchers;
            counts.behind += stream.load.behind;
        }
        counts
    }
}
