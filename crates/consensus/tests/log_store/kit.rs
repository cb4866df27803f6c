//! A log on a disk in memory, driven step by step, and the few values that tests are made of.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use futures::FutureExt;
use futures::executor::block_on;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::type_config::TypeConfigExt;
use openraft::{EntryPayload, RaftLogReader};
use setpoint_consensus::Batch;
use setpoint_consensus::log::{
    Entry, LogError, LogFailure, LogId, LogObserver, LogOptions, LogStore, LogWriter, MemoryFs, SyncedBatch,
    TypeConfig, Vote, open,
};
use setpoint_types::Timestamp;

pub fn id(term: u64, index: u64) -> LogId {
    LogId { leader_id: term.into(), index }
}

/// An entry whose payload tells it from every other.
pub fn entry(term: u64, index: u64, size: usize) -> Entry {
    let command = Bytes::from(vec![(term ^ index) as u8; size]);
    Entry {
        log_id: id(term, index),
        payload: EntryPayload::Normal(Batch::new(Timestamp(term << 32 | index), [&command])),
    }
}

pub fn entries(term: u64, indexes: std::ops::Range<u64>, size: usize) -> Vec<Entry> {
    indexes.map(|index| entry(term, index, size)).collect()
}

/// Small enough that a handful of entries fills a segment, and most reads go to files.
pub fn tiny() -> LogOptions {
    LogOptions { segment_bytes: 2048, tail_entries_max: 3, read_bytes_max: 700, ..LogOptions::default() }
}

#[derive(Default)]
pub struct Watch {
    pub failed: AtomicBool,
    pub batches: AtomicUsize,
    pub entries: AtomicUsize,
}

impl LogObserver for Watch {
    fn synced(&self, batch: &SyncedBatch) {
        self.batches.fetch_add(1, Ordering::SeqCst);
        self.entries.fetch_add(batch.entries, Ordering::SeqCst);
    }

    fn failed(&self, _: &LogFailure) {
        assert!(!self.failed.swap(true, Ordering::SeqCst), "a failure was reported twice");
    }
}

/// A log whose writer runs only when `step` is called.
pub struct Log {
    pub fs: MemoryFs,
    pub store: LogStore,
    pub writer: LogWriter,
    pub watch: Arc<Watch>,
}

/// Tells whether an append was confirmed.
pub struct Ack(Box<dyn Future<Output = Option<io::Result<()>>> + Unpin + Send>);

impl Ack {
    /// `None` while it is pending.
    pub fn outcome(&mut self) -> Option<io::Result<()>> {
        (&mut self.0).now_or_never().map(|outcome| outcome.expect("the log dropped a callback"))
    }
}

impl Log {
    pub fn open(fs: &MemoryFs, options: LogOptions) -> Result<Self, LogError> {
        let watch = Arc::new(Watch::default());
        let (store, writer) = open(Arc::new(fs.clone()), options, watch.clone())?;
        Ok(Self { fs: fs.clone(), store, writer, watch })
    }

    pub fn append(&mut self, entries: Vec<Entry>) -> io::Result<Ack> {
        let (sender, receiver) = TypeConfig::oneshot();
        block_on(self.store.append(entries, IOFlushed::signal(sender)))?;
        Ok(Ack(Box::new(receiver.map(Result::ok))))
    }

    /// Appends and makes durable.
    pub fn append_now(&mut self, entries: Vec<Entry>) {
        let mut ack = self.append(entries).expect("the log takes the entries");
        self.step();
        ack.outcome().expect("the entries are confirmed").expect("the entries are durable");
    }

    pub fn save_vote(&mut self, vote: Vote) -> io::Result<()> {
        let Self { store, writer, .. } = self;
        let mut saving = Box::pin(store.save_vote(&vote));
        if let Some(early) = (&mut saving).now_or_never() {
            return early;
        }
        while writer.step() {}
        block_on(saving)
    }

    pub fn truncate_after(&mut self, keep: Option<LogId>) {
        block_on(self.store.truncate_after(keep)).expect("the log truncates");
    }

    pub fn purge(&mut self, upto: LogId) {
        block_on(self.store.purge(upto)).expect("the log purges");
    }

    pub fn commit(&mut self, committed: LogId) {
        block_on(self.store.save_committed(Some(committed))).expect("the log takes the position");
    }

    /// Everything that is queued.
    pub fn step(&mut self) {
        while self.writer.step() {}
    }

    pub fn entries(&self) -> Vec<Entry> {
        block_on(self.store.reader().try_get_log_entries(..)).expect("the entries are readable")
    }

    pub fn vote(&self) -> Option<Vote> {
        block_on(self.store.reader().read_vote()).expect("the vote is readable")
    }

    pub fn committed(&mut self) -> Option<LogId> {
        block_on(self.store.read_committed()).expect("the position is readable")
    }

    /// (purged, last)
    pub fn bounds(&mut self) -> (Option<LogId>, Option<LogId>) {
        let state = block_on(self.store.get_log_state()).expect("the state is readable");
        (state.last_purged_log_id, state.last_log_id)
    }

    /// The log files in order.
    pub fn segments(&self) -> Vec<String> {
        segments(&self.fs)
    }
}

pub fn segments(fs: &MemoryFs) -> Vec<String> {
    use setpoint_consensus::log::LogFs;
    let names = fs.list().expect("listing cannot fail");
    names.into_iter().filter(|name| name.ends_with(".log")).collect()
}
