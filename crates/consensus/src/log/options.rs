//! What the log's owner decides: sizes, and who hears of syncs and of failure.

use std::time::Duration;

use super::error::LogFailure;

/// Sizes. The defaults suit a node with a few GiB of memory.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Size of a segment file. Purged space comes back in this unit.
    pub segment_bytes: u32,
    /// Emptied segments kept for reuse: writing to one needs no block allocation, hence a cheaper sync.
    pub spares_max: usize,
    /// Recent entries kept in memory, whichever bound is met first. Entries not yet durable always stay.
    pub tail_bytes_max: usize,
    pub tail_entries_max: usize,
    /// How much one write and sync may cover.
    pub batch_bytes_max: usize,
    pub batch_operations_max: usize,
    /// How much may wait for the writer; beyond it `append` waits.
    pub queue_bytes_max: usize,
    pub queue_operations_max: usize,
    /// How much one read for replication returns, and how much the apply path holds at a time.
    pub read_bytes_max: usize,
    /// How long a committed position may wait for an append to carry it to the file.
    pub committed_delay: Duration,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 8 << 20,
            spares_max: 2,
            tail_bytes_max: 16 << 20,
            tail_entries_max: 64 << 10,
            batch_bytes_max: 4 << 20,
            batch_operations_max: 4096,
            queue_bytes_max: 64 << 20,
            queue_operations_max: 4096,
            read_bytes_max: 2 << 20,
            committed_delay: Duration::from_millis(100),
        }
    }
}

/// What one sync made durable, and what it took.
#[derive(Clone, Copy, Debug)]
pub struct SyncedBatch {
    pub entries: usize,
    pub bytes: usize,
    pub write: Duration,
    pub sync: Duration,
}

/// Told by the writer, on its thread: must return quickly.
pub trait LogObserver: Send + Sync + 'static {
    fn synced(&self, batch: &SyncedBatch);

    /// The log is lost to this process: stop it. Called once; openraft hears of it too, through its
    /// callbacks.
    fn failed(&self, failure: &LogFailure);
}

/// For tests and tools that look at the log's answers only.
pub struct Ignore;

impl LogObserver for Ignore {
    fn synced(&self, _: &SyncedBatch) {}
    fn failed(&self, _: &LogFailure) {}
}
