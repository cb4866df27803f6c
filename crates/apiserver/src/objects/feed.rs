//! A place in history from which changes are read in order: from the hub's ring, and behind it from the store.
//!
//! Holds a revision and no changes, so whoever reads slowly costs no memory. Used by every watch of objects and by the
//! index. Ends when a compaction overtakes it.
//!
//! [`keep_in_step`] is for what is made of few objects and made anew whenever one of them changes.
//!
//! Not here: what the changes mean (`watch`, `index`, `definitions`).

use std::sync::Arc;

use setpoint_store::{EngineFailure, ReadFailure, Rejection, Store};
use setpoint_types::{KeyRange, Revision};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio_util::sync::CancellationToken;

use super::reader::begin;
use crate::replica::Halt;
use crate::watch::{Hub, Load, Published, Slot, Taken};

/// Revisions taken from the ring at a time: enough to keep up, little to hold on to.
const TAKEN_MAX: usize = 256;

pub struct Feed {
    hub: Arc<Hub>,
    store: Arc<Store>,
    range: KeyRange,
    slot: Slot,
    wake: Arc<Notify>,
    /// The next revision to look at.
    next: Revision,
    /// The hub says when there is something new; otherwise the store's history is read.
    synced: bool,
    /// It is somebody's watch, and is counted as one.
    counted: bool,
}

/// Everything from where the feed was up to and including `until`. Also changes outside the range may be among it.
pub struct Batch {
    pub sets: Vec<Arc<Published>>,
    pub until: Revision,
    /// There is more by now: take again, do not wait to be woken.
    pub more: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum FeedEnd {
    #[error("what comes next is compacted; the oldest kept revision is {oldest}")]
    Overtaken { oldest: Revision },
    #[error("the node is stopping")]
    Stopping,
    #[error(transparent)]
    Storage(#[from] EngineFailure),
}

impl Feed {
    /// Everything in the range after a revision.
    pub fn open(hub: &Arc<Hub>, store: &Arc<Store>, range: KeyRange, after: Revision) -> Self {
        let wake = Arc::new(Notify::new());
        let slot = hub.open_follower(wake.clone());
        let newest = hub.watch(slot, &range);
        let next = after.successor();
        let synced = next > newest;
        Self { hub: hub.clone(), store: store.clone(), range, slot, wake, next, synced, counted: false }
    }

    /// The same for a client's watch.
    pub fn open_watch(hub: &Arc<Hub>, store: &Arc<Store>, range: KeyRange, after: Revision) -> Self {
        let mut feed = Self::open(hub, store, range, after);
        feed.counted = true;
        feed.report();
        feed
    }

    fn report(&self) {
        if self.counted {
            self.hub.report(self.slot, Load { watchers: 1, behind: usize::from(!self.synced) });
        }
    }

    /// What there is by now; without changes if nothing is new. Of history about `bytes`, but whole revisions.
    pub async fn take(&mut self, bytes: usize) -> Result<Batch, FeedEnd> {
        loop {
            if !self.synced {
                self.synced = self.hub.resume(self.slot, self.next);
                self.report();
            }
            if !self.synced {
                return self.catch_up(bytes).await;
            }
            match self.hub.take_some(self.slot, TAKEN_MAX) {
                Taken::Changes { mut sets, until } => {
                    let cut = sets.len() == TAKEN_MAX;
                    sets.retain(|set| set.revision() >= self.next);
                    self.next = self.next.max(until.successor());
                    return Ok(Batch { sets, until: self.next.predecessor(), more: cut });
                }
                Taken::Behind { from } => {
                    self.synced = false;
                    self.next = self.next.max(from);
                }
            }
        }
    }

    /// Goes back to a revision that was taken, to take it again.
    pub fn back_to(&mut self, revision: Revision) {
        self.next = revision;
        self.synced = self.hub.resume(self.slot, revision);
    }

    /// Resolves when there may be something to take. Only to be waited for when nothing was left.
    pub fn changed(&self) -> Notified<'_> {
        self.wake.notified()
    }

    pub fn range(&self) -> &KeyRange {
        &self.range
    }

    /// True while history is read because the ring no longer reaches back so far.
    pub fn is_behind(&self) -> bool {
        !self.synced
    }

    async fn catch_up(&mut self, bytes: usize) -> Result<Batch, FeedEnd> {
        let (store, from) = (self.store.clone(), self.next);
        // Looked at before the read: what is published meanwhile may be missing from it.
        let published = self.hub.newest();
        let read = begin(move || store.changes(from, bytes)).await;
        let sets = match read.map_err(|_| FeedEnd::Stopping)? {
            Ok(sets) => sets,
            Err(ReadFailure::Engine(failure)) => return Err(failure.into()),
            Err(ReadFailure::Rejected(Rejection::Compacted { oldest })) => {
                return Err(FeedEnd::Overtaken { oldest });
            }
            // The store refuses history for no other reason.
            Err(ReadFailure::Rejected(_) | ReadFailure::Overtaken) => return Err(FeedEnd::Stopping),
        };
        let until = sets.last().map_or(published, |last| last.revision);
        self.next = self.next.max(until.successor());
        let sets = sets.into_iter().map(|set| Arc::new(self.hub.shelved(set))).collect();
        Ok(Batch { sets, until: self.next.predecessor(), more: true })
    }
}

/// Of history, at a time, that is only looked at to know that something has changed.
const HISTORY_BYTES: usize = 1 << 20;

/// Refreshes now, and whenever something in one of the ranges changes, until `stop` or until the node's storage fails.
pub async fn keep_in_step(
    hub: &Arc<Hub>,
    store: &Arc<Store>,
    ranges: [KeyRange; 2],
    halt: Halt,
    stop: CancellationToken,
    refresh: impl Fn() -> Result<(), ReadFailure> + Send + Sync + 'static,
) {
    let refresh = Arc::new(refresh);
    let follow = async {
        loop {
            match follow(hub, store, &ranges, &refresh).await {
                Ok(()) | Err(FeedEnd::Overtaken { .. }) => {}
                Err(FeedEnd::Storage(failure)) => return halt.because(&failure),
                Err(FeedEnd::Stopping) => return,
            }
        }
    };
    stop.run_until_cancelled(follow).await;
}

async fn follow<F>(
    hub: &Arc<Hub>,
    store: &Arc<Store>,
    ranges: &[KeyRange; 2],
    refresh: &Arc<F>,
) -> Result<(), FeedEnd>
where
    F: Fn() -> Result<(), ReadFailure> + Send + Sync + 'static,
{
    let newest = hub.newest();
    let [mut one, mut other] = ranges.clone().map(|range| Feed::open(hub, store, range, newest));
    loop {
        let refresh = refresh.clone();
        let refreshed = begin(move || refresh()).await;
        if let Err(ReadFailure::Engine(failure)) = refreshed.map_err(|_| FeedEnd::Stopping)? {
            return Err(failure.into());
        }
        tokio::select! {
            () = one.changed() => {}
            () = other.changed() => {}
        }
        while one.take(HISTORY_BYTES).await?.more {}
        while other.take(HISTORY_BYTES).await?.more {}
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.hub.unwatch(self.slot, &self.range);
        self.hub.close_stream(self.slot);
    }
}
