//! Where requests leave their entries.
//!
//! The queue is bounded, and a full one stops nobody for long: a write waits a moment for a place and then goes unrecorded,
//! which is counted. A denial never waits, and denials together have half of the places: whoever is denied a million
//! times fills only those, and the writes of others are still recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{self, Sender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::entry::AuditEntry;
use super::file::{AuditFailure, AuditFile, AuditOptions};
use super::writer::AuditWriter;

/// The log, for those who write to it. Clones share it.
#[derive(Clone)]
pub struct AuditLog {
    queue: Sender<Queued>,
    places_for_denials: Arc<Semaphore>,
    patience: Duration,
    counters: Arc<Counters>,
}

/// What the writer is given.
pub enum Queued {
    Entry {
        entry: Box<AuditEntry>,
        _place: Option<OwnedSemaphorePermit>,
    },
    /// Nothing comes after what is already in the queue.
    End,
}

/// Whether an entry is on its way to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    Yes,
    /// The queue was full, or the log is closed. Counted.
    No,
}

/// What the log has counted since the start, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditCounts {
    /// Lines in the file.
    pub written: u64,
    /// Entries of writes that found no place, or could not be written.
    pub writes_dropped: u64,
    /// The same of denials.
    pub denials_dropped: u64,
    /// Times that the file could not be written.
    pub failures: u64,
}

#[derive(Default)]
pub struct Counters {
    written: AtomicU64,
    writes_dropped: AtomicU64,
    denials_dropped: AtomicU64,
    failures: AtomicU64,
}

impl Counters {
    pub fn wrote(&self, lines: usize) {
        self.written.fetch_add(lines as u64, Ordering::Relaxed);
    }

    pub fn dropped(&self, entry: &AuditEntry) {
        let counter = if entry.is_denial() { &self.denials_dropped } else { &self.writes_dropped };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }
}

impl AuditLog {
    /// Opens the file and starts its thread. A file that cannot be opened now is an error: it is a mistake in the
    /// settings. One that fails later is tried again with every entry.
    pub fn open(options: &AuditOptions) -> Result<(Self, AuditWriter), AuditFailure> {
        let file = AuditFile::open(options)?;
        let places = options.waiting_max.max(2);
        let (queue, waiting) = mpsc::channel(places);
        let counters = Arc::new(Counters::default());
        let writer = AuditWriter::start(options.clone(), file, waiting, queue.clone(), counters.clone())
            .map_err(|source| AuditFailure { path: options.path.clone(), source })?;
        let places_for_denials = Arc::new(Semaphore::new(places / 2));
        Ok((Self { queue, places_for_denials, patience: options.patience, counters }, writer))
    }

    /// Records what was done or denied. Takes at most the log's patience, and for denials no time.
    pub async fn record(&self, entry: AuditEntry) -> Recorded {
        if entry.is_denial() {
            return self.record_denial(entry);
        }
        let place = match self.queue.try_reserve() {
            Ok(place) => place,
            Err(_) => match tokio::time::timeout(self.patience, self.queue.reserve()).await {
                Ok(Ok(place)) => place,
                Ok(Err(_)) | Err(_) => return self.dropped(&entry),
            },
        };
        place.send(Queued::Entry { entry: Box::new(entry), _place: None });
        Recorded::Yes
    }

    /// The same without waiting, for whoever cannot.
    pub fn record_now(&self, entry: AuditEntry) -> Recorded {
        if entry.is_denial() {
            return self.record_denial(entry);
        }
        let Ok(place) = self.queue.try_reserve() else { return self.dropped(&entry) };
        place.send(Queued::Entry { entry: Box::new(entry), _place: None });
        Recorded::Yes
    }

    pub fn counts(&self) -> AuditCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        AuditCounts {
            written: read(&self.counters.written),
            writes_dropped: read(&self.counters.writes_dropped),
            denials_dropped: read(&self.counters.denials_dropped),
            failures: read(&self.counters.failures),
        }
    }

    fn record_denial(&self, entry: AuditEntry) -> Recorded {
        let Ok(permit) = self.places_for_denials.clone().try_acquire_owned() else {
            return self.dropped(&entry);
        };
        let Ok(place) = self.queue.try_reserve() else { return self.dropped(&entry) };
        place.send(Queued::Entry { entry: Box::new(entry), _place: Some(permit) });
        Recorded::Yes
    }

    fn dropped(&self, entry: &AuditEntry) -> Recorded {
        self.counters.dropped(entry);
        Recorded::No
    }
}
