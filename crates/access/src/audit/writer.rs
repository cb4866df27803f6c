//! The thread that writes the audit log.
//!
//! A thread and not a task: it waits for a disk. It writes whatever waits at once, so that a slow disk makes larger writes
//! and not a longer queue. A file that fails is said so once, and once more when it works again; what could not be
//! written meanwhile is counted and gone.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use tokio::sync::mpsc::{Receiver, Sender};

use super::entry::AuditEntry;
use super::file::{AuditFailure, AuditFile, AuditOptions};
use super::log::{Counters, Queued};

/// Entries written at once. Bounds what is held in memory besides the queue.
const BATCH_MAX: usize = 256;

/// Ends the log. Dropping it ends nothing: the thread goes on until the last [`super::AuditLog`] is gone.
pub struct AuditWriter {
    queue: Sender<Queued>,
    thread: JoinHandle<()>,
}

impl AuditWriter {
    pub fn start(
        options: AuditOptions,
        file: AuditFile,
        waiting: Receiver<Queued>,
        queue: Sender<Queued>,
        counters: Arc<Counters>,
    ) -> io::Result<Self> {
        let state = Writing { options, file: Some(file), counters, failing: false };
        let thread = Builder::new().name("audit".to_owned()).spawn(move || state.run(waiting))?;
        Ok(Self { queue, thread })
    }

    /// Writes what is in the queue, makes it durable, and ends the thread. Entries that come later are counted as dropped.
    pub async fn close(self) {
        // Fails only if the thread has ended, which is what is wanted.
        let _ = self.queue.send(Queued::End).await;
        let thread = self.thread;
        let joined = tokio::task::spawn_blocking(move || thread.join()).await;
        if !matches!(joined, Ok(Ok(()))) {
            tracing::error!("the thread of the audit log ended badly; its last lines may be missing");
        }
    }
}

struct Writing {
    options: AuditOptions,
    /// None after a failure, until it can be opened again.
    file: Option<AuditFile>,
    counters: Arc<Counters>,
    failing: bool,
}

impl Writing {
    fn run(mut self, mut waiting: Receiver<Queued>) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while waiting.blocking_recv_many(&mut batch, BATCH_MAX) > 0 {
            if batch.iter().any(|queued| matches!(queued, Queued::End)) {
                // What is in the queue already still comes out of it.
                waiting.close();
            }
            self.write(&batch);
            batch.clear();
        }
        if let Some(Err(failure)) = self.file.as_ref().map(AuditFile::sync) {
            self.failed(&failure);
        }
    }

    fn write(&mut self, batch: &[Queued]) {
        let entries: Vec<&AuditEntry> = batch
            .iter()
            .filter_map(|queued| match queued {
                Queued::Entry { entry, .. } => Some(&**entry),
                Queued::End => None,
            })
            .collect();
        let mut lines = Vec::new();
        for entry in &entries {
            match entry.line() {
                Ok(line) => {
                    lines.extend_from_slice(&line);
                    lines.push(b'\n');
                }
                Err(error) => tracing::error!(error = %error, "an audit entry cannot be written as JSON"),
            }
        }
        match self.append(&lines) {
            Ok(()) => {
                self.counters.wrote(entries.len());
                if std::mem::take(&mut self.failing) {
                    tracing::info!(path = %self.options.path.display(), "the audit log is written again");
                }
            }
            Err(failure) => {
                entries.iter().for_each(|entry| self.counters.dropped(entry));
                self.failed(&failure);
            }
        }
    }

    fn append(&mut self, lines: &[u8]) -> Result<(), AuditFailure> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => AuditFile::open(&self.options)?,
        };
        file.append(lines)?;
        self.file = Some(file);
        Ok(())
    }

    /// Said once, counted every time.
    fn failed(&mut self, failure: &AuditFailure) {
        self.counters.failed();
        if !std::mem::replace(&mut self.failing, true) {
            let cause = failure.source().map(ToString::to_string).unwrap_or_default();
            tracing::error!(error = %failure, cause, "writes and denials go unrecorded until it can");
        }
    }
}
