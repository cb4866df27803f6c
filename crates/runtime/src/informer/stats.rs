//! How an informer fares, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio_util::sync::CancellationToken;

use super::machine::Relist;

/// Counted since the informer began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Changes taken in, without whole states.
    pub events: u64,
    pub answers: u64,
    /// Streams opened.
    pub streams: u64,
    /// Streams given up because nothing came from them.
    pub stalls: u64,
    /// Streams that ended with an error, or could not be opened.
    pub failures: u64,
    /// Whole states because what came next was no longer kept.
    pub relists_expired: u64,
    /// Whole states begun again because a compaction overtook them.
    pub relists_too_slow: u64,
    /// Whole states because the cluster knows nothing of what the cache has seen: it was restored.
    pub relists_behind: u64,
    /// Objects that an index or a transformation could not read.
    pub unreadable: u64,
}

#[derive(Default)]
pub struct Counters {
    pub events: AtomicU64,
    pub answers: AtomicU64,
    pub streams: AtomicU64,
    pub stalls: AtomicU64,
    pub failures: AtomicU64,
    expired: AtomicU64,
    too_slow: AtomicU64,
    behind: AtomicU64,
    end: CancellationToken,
}

impl Counters {
    pub fn add(counter: &AtomicU64, number: usize) {
        counter.fetch_add(number as u64, Ordering::Relaxed);
    }

    pub fn relist(&self, cause: Relist) {
        match cause {
            // The first one is no relist.
            Relist::Start => {}
            Relist::Expired => Self::add(&self.expired, 1),
            Relist::TooSlow => Self::add(&self.too_slow, 1),
            Relist::Behind => Self::add(&self.behind, 1),
        }
    }

    /// The informer feeds its cache no more.
    pub fn end(&self) {
        self.end.cancel();
    }

    pub async fn ended(&self) {
        self.end.cancelled().await;
    }

    pub fn read(&self, unreadable: u64) -> Stats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            events: get(&self.events),
            answers: get(&self.answers),
            streams: get(&self.streams),
            stalls: get(&self.stalls),
            failures: get(&self.failures),
            relists_expired: get(&self.expired),
            relists_too_slow: get(&self.too_slow),
            relists_behind: get(&self.behind),
            unreadable,
        }
    }
}
