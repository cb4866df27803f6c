//! The log as openraft writes it. Everything takes effect in memory at once and is queued for the writer;
//! only a vote waits for the disk.

use std::io;
use std::sync::Arc;

use openraft::OptionalSend;
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use tokio::sync::oneshot;

use super::error::LogFailure;
use super::growth::Growth;
use super::pledge::Pledge;
use super::queue::{Operation, Queue};
use super::reader::LogReader;
use super::view::View;
use crate::codec;
use crate::raft::{Entry, LogId, TypeConfig, Vote};

/// Owned by openraft. When it is dropped, its writer finishes and ends.
pub struct LogStore {
    queue: Arc<Queue>,
    view: Arc<View>,
    reader: LogReader,
    pledge: Arc<Pledge>,
    growth: Arc<Growth>,
}

impl LogStore {
    pub(super) fn new(queue: Arc<Queue>, view: Arc<View>, read_bytes_max: usize) -> Self {
        let reader = LogReader::new(view.clone(), read_bytes_max);
        let pledge = Arc::new(Pledge::new(view.lock().vote.as_ref()));
        Self { queue, view, reader, pledge, growth: Arc::default() }
    }

    /// How much the log has grown, as of every later moment.
    pub fn growth(&self) -> Arc<Growth> {
        self.growth.clone()
    }

    /// What this node has promised, as of every later moment.
    pub fn pledge(&self) -> Arc<Pledge> {
        self.pledge.clone()
    }

    /// A reader that stays valid for as long as it is kept.
    pub fn reader(&self) -> LogReader {
        self.reader.clone()
    }
}

impl Drop for LogStore {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = LogReader;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, io::Error> {
        let state = self.view.lock();
        let outline = state.outline();
        Ok(LogState { last_purged_log_id: outline.purged(), last_log_id: outline.last() })
    }

    async fn get_log_reader(&mut self) -> LogReader {
        self.reader()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        // First of all: from here on the vote may get out, and then nothing else may be pledged.
        self.pledge.promise(vote);
        self.queue.room().await?;
        let (saved, outcome) = oneshot::channel();
        let generation = self.view.lock().generation();
        self.queue.push(Operation::Vote { vote: *vote, saved }, 0, generation);
        outcome.await.unwrap_or_else(|_| Err(writer_is_gone()))?;
        // Only now: a reader must not see a vote that a power loss could take back.
        self.view.lock().vote = Some(*vote);
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        self.view.lock().committed = committed;
        self.queue.set_committed(committed);
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        Ok(self.view.lock().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        let bytes = entries.iter().map(codec::encoded_len).sum();
        let last = entries.last().map(|entry| entry.log_id.index);
        self.queue.room().await?;
        let mut state = self.view.lock();
        state.append(&entries).map_err(|hole| io::Error::new(io::ErrorKind::InvalidInput, hole))?;
        let generation = state.generation();
        drop(state);
        self.pledge.append(&entries);
        if let Some(last) = last {
            self.growth.append(last, bytes);
        }
        self.queue.push(Operation::Append { entries, flushed: callback }, bytes, generation);
        Ok(())
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> Result<(), io::Error> {
        self.queue.room().await?;
        let mut state = self.view.lock();
        state.truncate_after(last_log_id);
        let generation = state.generation();
        drop(state);
        let last = last_log_id.map(|log_id| log_id.index);
        self.pledge.truncate_after(last);
        self.growth.truncate_after(last);
        self.queue.push(Operation::TruncateAfter(last_log_id), 0, generation);
        Ok(())
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), io::Error> {
        self.queue.room().await?;
        let mut state = self.view.lock();
        state.purge(log_id);
        let generation = state.generation();
        drop(state);
        self.growth.purge(log_id.index);
        self.queue.push(Operation::Purge(log_id), 0, generation);
        Ok(())
    }
}

fn writer_is_gone() -> LogFailure {
    LogFailure::new(io::Error::other("the raft log writer is gone"))
}
