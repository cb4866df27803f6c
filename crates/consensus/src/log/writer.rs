//! The only one who writes: takes what is queued, writes it at once, syncs once, and only then confirms.
//!
//! `LogWriter` does one batch at a time and owns no thread: `spawn` gives it one, a simulation runs it as a
//! task or step by step. The first failure is the last thing it does: after a failed sync nobody knows what
//! is on disk.

use std::io;
use std::sync::Arc;

use openraft::storage::IOFlushed;
use tracing::{error, warn};

use super::error::LogFailure;
use super::fs::LogFs;
use super::index::{Change, Segment};
use super::options::{LogObserver, SyncedBatch};
use super::outline::Outline;
use super::queue::{Batch, Next, Operation, Queue};
use super::record::{Checkpoint, Header, Previous, RecordRef, Sequence};
use super::segment::{Active, Flushed, Place, file_name};
use super::spare::Spares;
use super::view::{Generation, Progress, View};
use crate::raft::{LogId, Vote};

/// Makes durable what a `LogStore` accepts. Nothing is confirmed unless this is driven.
pub struct LogWriter {
    pub(super) fs: Arc<dyn LogFs>,
    pub(super) queue: Arc<Queue>,
    pub(super) view: Arc<View>,
    pub(super) observer: Arc<dyn LogObserver>,
    pub(super) spares: Arc<Spares>,
    pub(super) active: Active,
    pub(super) written: Written,
    pub(super) failed: bool,
}

/// The log as its records so far tell it: what the next segment's header repeats.
#[derive(Clone, Debug, Default)]
pub struct Written {
    pub vote: Option<Vote>,
    pub committed: Option<LogId>,
    pub outline: Outline,
}

/// What one batch did, besides its records.
#[derive(Default)]
struct Work {
    changes: Vec<Change>,
    entries: usize,
    flushed: Flushed,
}

/// A writer on its own thread. It ends by itself when the store is dropped.
pub struct LogThread {
    thread: std::thread::JoinHandle<()>,
}

impl LogThread {
    /// Waits until everything accepted is on disk. To be called after the store was dropped, as a Raft
    /// shutdown does.
    pub fn join(self) {
        if self.thread.join().is_err() {
            error!("the raft log writer panicked");
        }
    }
}

impl LogWriter {
    pub fn spawn(mut self) -> io::Result<LogThread> {
        let work = move || {
            loop {
                match self.queue.wait() {
                    Next::Batch(batch) => {
                        self.process(batch);
                        if self.active.is_half_full() {
                            self.spares.refill_in_background();
                        }
                    }
                    Next::Nothing => {}
                    Next::Closed => break self.finish(),
                }
            }
        };
        Ok(LogThread { thread: std::thread::Builder::new().name("raft-log".into()).spawn(work)? })
    }

    /// The same as a task, for a simulation whose files never block. `pause` is awaited before each batch:
    /// simulated latency.
    pub async fn run<P, F>(mut self, mut pause: P)
    where
        P: FnMut() -> F + Send,
        F: Future<Output = ()> + Send,
    {
        loop {
            match self.queue.wait_task().await {
                Next::Batch(batch) => {
                    pause().await;
                    self.process(batch);
                }
                Next::Nothing => {}
                Next::Closed => break self.finish(),
            }
        }
    }

    /// One batch of what is queued, if anything is. Returns whether there was.
    pub fn step(&mut self) -> bool {
        match self.queue.poll() {
            Next::Batch(batch) => {
                self.process(batch);
                true
            }
            Next::Nothing | Next::Closed => false,
        }
    }

    fn process(&mut self, batch: Batch) {
        if self.failed {
            return;
        }
        let sync = batch.operations.iter().any(Operation::must_be_durable);
        match self.write(&batch, sync) {
            Ok(work) => {
                confirm(batch.operations);
                self.publish(work, sync.then_some(batch.generation));
            }
            Err(error) => self.fail(LogFailure::new(error), batch.operations),
        }
    }

    fn write(&mut self, batch: &Batch, sync: bool) -> io::Result<Work> {
        let mut work = Work::default();
        for operation in &batch.operations {
            match operation {
                Operation::Append { entries, .. } => {
                    for entry in entries {
                        let place = self.put(RecordRef::Append(entry), &mut work)?;
                        self.written.outline.append(entry.log_id).map_err(io::Error::other)?;
                        work.changes.push(Change::Place { index: entry.log_id.index, place });
                    }
                    work.entries += entries.len();
                }
                Operation::TruncateAfter(keep) => {
                    self.put(RecordRef::TruncateAfter(*keep), &mut work)?;
                    let next = self.written.outline.truncate_after(*keep);
                    work.changes.push(Change::Truncate { next });
                }
                Operation::Purge(upto) => {
                    self.put(RecordRef::Purge(*upto), &mut work)?;
                    self.written.outline.purge(*upto);
                    work.changes.push(Change::Purge { upto: upto.index });
                }
                Operation::Vote { vote, .. } => {
                    self.put(RecordRef::Vote(vote), &mut work)?;
                    self.written.vote = Some(*vote);
                }
            }
        }
        if let Some(committed) = batch.committed.filter(|committed| *committed != self.written.committed) {
            self.put(RecordRef::Committed(committed), &mut work)?;
            self.written.committed = committed;
        }
        work.flush(&mut self.active, sync)?;
        Ok(work)
    }

    fn put(&mut self, record: RecordRef<'_>, work: &mut Work) -> io::Result<Place> {
        if !self.active.fits(record.frame_len()) {
            self.rotate(record.frame_len(), work)?;
        }
        Ok(self.active.put(record))
    }

    /// Begins a new segment. The old one is synced first: a segment on disk proves that its predecessor is
    /// complete.
    fn rotate(&mut self, frame_len: usize, work: &mut Work) -> io::Result<()> {
        work.flush(&mut self.active, true)?;
        let previous = Previous { sequence: self.active.sequence, end: self.active.end() };
        self.active = begin(&*self.fs, &self.spares, Some(previous), &self.written, frame_len)?;
        let (sequence, file) = (self.active.sequence, self.active.file.clone());
        work.changes.push(Change::Begin { sequence, file });
        Ok(())
    }

    fn publish(&mut self, work: Work, durable: Option<Generation>) {
        let Work { changes, entries, flushed } = work;
        let next = self.written.outline.range().end;
        let retired =
            self.view.advance(Progress { changes, durable: durable.map(|generation| (generation, next)) });
        if durable.is_some() {
            let Flushed { bytes, write, sync } = flushed;
            self.observer.synced(&SyncedBatch { entries, bytes, write, sync });
        }
        for Segment { sequence, file, .. } in retired {
            let name = file_name(sequence);
            if let Err(error) = self.spares.give(&name, file) {
                // Costs space until the next start, nothing else.
                warn!(
                    error = &error as &dyn std::error::Error,
                    file = name,
                    "cannot reuse a raft log segment"
                );
            }
        }
    }

    fn fail(&mut self, failure: LogFailure, unconfirmed: Vec<Operation>) {
        self.failed = true;
        error!(error = &failure as &dyn std::error::Error, "the raft log failed");
        for operation in unconfirmed {
            operation.refuse(&failure);
        }
        self.queue.fail(&failure);
        self.observer.failed(&failure);
    }

    fn finish(&mut self) {
        if !self.failed
            && self.active.is_dirty()
            && let Err(error) = self.active.flush(true)
        {
            // Nobody was promised what is lost here.
            warn!(error = &error as &dyn std::error::Error, "cannot sync the raft log at its end");
        }
        self.spares.settle();
    }
}

/// A panic must not leave openraft waiting for a callback that never comes.
impl Drop for LogWriter {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.failed {
            self.fail(LogFailure::new(io::Error::other("the raft log writer panicked")), Vec::new());
        }
    }
}

/// The first segment of a log, or the one after `previous`, with its header staged but not written.
pub(super) fn begin(
    fs: &dyn LogFs,
    spares: &Spares,
    previous: Option<Previous>,
    written: &Written,
    frame_len: usize,
) -> io::Result<Active> {
    let header = Header { previous, checkpoint: written.checkpoint() };
    let header = RecordRef::Header(&header);
    let capacity = u32::try_from(header.frame_len() + frame_len).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let sequence = previous.map_or(FIRST, |previous| previous.sequence.next());
    let spare = spares.take(capacity)?;
    fs.rename(&spare.name, &file_name(sequence))?;
    // Before the first byte is in it: records must never be found in a file that still has another name.
    fs.sync_names()?;
    let mut active = Active::new(sequence, spare.file, spare.capacity, 0, 1);
    active.put(header);
    Ok(active)
}

const FIRST: Sequence = Sequence(1);

/// Tells everyone whose operation is durable. Of openraft's watermark only the newest value counts, and
/// reporting an older one just before would delay it.
fn confirm(operations: Vec<Operation>) {
    let mut newest = IOFlushed::Noop;
    for operation in operations {
        match operation {
            Operation::Append { flushed: flushed @ IOFlushed::Notify(_), .. } => newest = flushed,
            Operation::Append { flushed, .. } => flushed.io_completed(Ok(())),
            // Whoever asked is gone: then nobody has to be told.
            Operation::Vote { saved, .. } => drop(saved.send(Ok(()))),
            Operation::TruncateAfter(_) | Operation::Purge(_) => {}
        }
    }
    newest.io_completed(Ok(()));
}

impl Operation {
    /// The others may be lost together with everything that follows them: openraft then does them again.
    fn must_be_durable(&self) -> bool {
        matches!(self, Self::Append { .. } | Self::Vote { .. })
    }
}

impl Written {
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            vote: self.vote,
            purged: self.outline.purged(),
            committed: self.committed,
            last: self.outline.last(),
        }
    }
}

impl Work {
    fn flush(&mut self, active: &mut Active, sync: bool) -> io::Result<()> {
        let Flushed { bytes, write, sync } = active.flush(sync)?;
        self.flushed.bytes += bytes;
        self.flushed.write += write;
        self.flushed.sync += sync;
        Ok(())
    }
}
