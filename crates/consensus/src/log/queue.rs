//! What waits for the writer, in order. Bounded: who appends faster than the disk waits here.
//!
//! While the disk syncs one batch the next one gathers, and is drained whole: that is the group commit, there
//! is no timer in it. The committed position is not an operation: it is overwritten in place, and leaves with
//! whatever leaves next.

use std::collections::VecDeque;

use openraft::storage::IOFlushed;
use parking_lot::{Condvar, Mutex};
use tokio::sync::{Notify, oneshot};

use super::error::LogFailure;
use super::options::LogOptions;
use super::view::Generation;
use crate::raft::{Entry, LogId, TypeConfig, Vote};

pub enum Operation {
    Append { entries: Vec<Entry>, flushed: IOFlushed<TypeConfig> },
    TruncateAfter(Option<LogId>),
    Purge(LogId),
    Vote { vote: Vote, saved: oneshot::Sender<Result<(), LogFailure>> },
}

/// Operations to be made durable together.
#[derive(Default)]
pub struct Batch {
    pub operations: Vec<Operation>,
    pub committed: Option<Option<LogId>>,
    /// The view's generation at the last operation.
    pub generation: Generation,
}

pub struct Queue {
    state: Mutex<State>,
    /// For a writer on a thread, and for one that is a task: both are told.
    filled: Condvar,
    filled_task: Notify,
    drained: Notify,
    options: LogOptions,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    committed: Option<Option<LogId>>,
    closed: bool,
    failure: Option<LogFailure>,
}

struct Waiting {
    operation: Operation,
    bytes: usize,
    generation: Generation,
}

/// What a writer finds in the queue.
pub enum Next {
    Batch(Batch),
    Nothing,
    Closed,
}

impl Queue {
    pub fn new(options: LogOptions) -> Self {
        Self {
            state: Mutex::default(),
            filled: Condvar::new(),
            filled_task: Notify::new(),
            drained: Notify::new(),
            options,
        }
    }

    /// Waits until there is room for another operation. Only the store calls it, so the room is still there
    /// afterwards.
    pub async fn room(&self) -> Result<(), LogFailure> {
        loop {
            let drained = self.drained.notified();
            {
                let state = self.state.lock();
                if let Some(failure) = &state.failure {
                    return Err(failure.clone());
                }
                let full = state.bytes >= self.options.queue_bytes_max
                    || state.waiting.len() >= self.options.queue_operations_max;
                if !full {
                    return Ok(());
                }
            }
            drained.await;
        }
    }

    pub fn push(&self, operation: Operation, bytes: usize, generation: Generation) {
        let mut state = self.state.lock();
        if let Some(failure) = &state.failure {
            let failure = failure.clone();
            drop(state);
            return operation.refuse(&failure);
        }
        state.bytes += bytes;
        state.waiting.push_back(Waiting { operation, bytes, generation });
        drop(state);
        self.wake();
    }

    /// An idle writer only begins to wait for `committed_delay`; any operation takes the position along
    /// earlier.
    pub fn set_committed(&self, committed: Option<LogId>) {
        let first = self.state.lock().committed.replace(committed).is_none();
        if first {
            self.wake();
        }
    }

    /// No operation will follow; the writer ends when it has done what is left.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.wake();
    }

    /// Refuses what waits, and what is pushed from now on.
    pub fn fail(&self, failure: &LogFailure) {
        let mut state = self.state.lock();
        state.failure = Some(failure.clone());
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for waiting in waiting {
            waiting.operation.refuse(failure);
        }
        self.drained.notify_one();
    }

    /// Blocks the thread until there is something to do.
    pub fn wait(&self) -> Next {
        let mut state = self.state.lock();
        while state.waiting.is_empty() && !state.closed {
            if state.committed.is_none() {
                self.filled.wait(&mut state);
            } else if self.filled.wait_for(&mut state, self.options.committed_delay).timed_out() {
                break;
            }
        }
        self.take(state)
    }

    pub async fn wait_task(&self) -> Next {
        loop {
            match self.poll() {
                Next::Nothing => self.filled_task.notified().await,
                next => return next,
            }
        }
    }

    pub fn poll(&self) -> Next {
        self.take(self.state.lock())
    }

    fn take(&self, mut state: parking_lot::MutexGuard<'_, State>) -> Next {
        let mut batch = Batch::default();
        let mut bytes = 0;
        while let Some(next) = state.waiting.front() {
            let full = bytes + next.bytes > self.options.batch_bytes_max
                || batch.operations.len() >= self.options.batch_operations_max;
            if full && !batch.operations.is_empty() {
                break;
            }
            bytes += next.bytes;
            batch.generation = next.generation;
            batch.operations.extend(state.waiting.pop_front().map(|waiting| waiting.operation));
        }
        if state.waiting.is_empty() {
            // With operations left behind, it might name an entry that is among them.
            batch.committed = state.committed.take();
        }
        state.bytes -= bytes;
        let closed = state.closed;
        drop(state);
        self.drained.notify_one();
        if !batch.operations.is_empty() || batch.committed.is_some() {
            return Next::Batch(batch);
        }
        if closed { Next::Closed } else { Next::Nothing }
    }

    fn wake(&self) {
        self.filled.notify_one();
        self.filled_task.notify_one();
    }
}

impl Operation {
    pub fn refuse(self, failure: &LogFailure) {
        match self {
            Self::Append { flushed, .. } => flushed.io_completed(Err(failure.clone().into())),
            // Whoever asked is gone: then nobody has to be told.
            Self::Vote { saved, .. } => drop(saved.send(Err(failure.clone()))),
            Self::TruncateAfter(_) | Self::Purge(_) => {}
        }
    }
}
