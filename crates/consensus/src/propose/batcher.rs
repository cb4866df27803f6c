//! The queue of commands and the task that turns it into entries.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use openraft::error::ClientWriteError;
use openraft::raft::ClientWriteResult;
use parking_lot::Mutex;
use setpoint_api::setpoint::peer::v1 as proto;
use setpoint_types::Timestamp;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;

use super::budget::{Budget, Lease};
use super::completion::Completion;
use crate::batch::Batch;
use crate::clock::Clock;
use crate::config::Limits;
use crate::counters::Counters;
use crate::forward;
use crate::host::{Host, Refusal};
use crate::raft::{Raft, TypeConfig};

/// Who is told if a command is refused after it was taken.
#[derive(Clone)]
pub enum Origin {
    Local,
    /// A follower's forward stream.
    Remote(mpsc::WeakSender<proto::ForwardReply>),
}

struct Submission {
    command: Bytes,
    origin: Origin,
    lease: Lease,
}

/// Commands taken and not yet part of an entry.
pub struct Proposals {
    /// None once nothing is taken any more.
    queue: Mutex<Option<VecDeque<Submission>>>,
    filled: Notify,
    budget: Arc<Budget>,
}

impl Proposals {
    pub fn new(limits: &Limits) -> Self {
        let budget = Budget::new(limits.pending_commands, limits.pending_bytes);
        Self { queue: Mutex::new(Some(VecDeque::new())), filled: Notify::new(), budget }
    }

    pub fn submit(&self, command: Bytes, origin: Origin) -> Result<(), Refusal> {
        let lease = self.budget.take(command.len()).ok_or(Refusal::Overloaded)?;
        match &mut *self.queue.lock() {
            Some(queue) => queue.push_back(Submission { command, origin, lease }),
            None => return Err(Refusal::ShuttingDown),
        }
        self.filled.notify_one();
        Ok(())
    }

    /// The commands of the next entry, in order; at least one, whatever its size.
    async fn next(&self, entry_bytes: usize) -> Vec<Submission> {
        loop {
            while self.is_empty() {
                self.filled.notified().await;
            }
            // Whoever is about to submit gets the chance to: an entry costs the same for one and for many.
            yield_now().await;
            let picked = self.pick(entry_bytes);
            if !picked.is_empty() {
                return picked;
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.queue.lock().as_ref().is_none_or(VecDeque::is_empty)
    }

    fn pick(&self, entry_bytes: usize) -> Vec<Submission> {
        let mut queue = self.queue.lock();
        let Some(queue) = &mut *queue else { return Vec::new() };
        let mut bytes = 0;
        let fits = |submission: &&Submission| {
            bytes += submission.command.len();
            bytes <= entry_bytes
        };
        let count = queue.iter().take_while(fits).count().max(1).min(queue.len());
        queue.drain(..count).collect()
    }

    /// Takes nothing any more; returns what was left.
    fn close(&self) -> VecDeque<Submission> {
        self.queue.lock().take().unwrap_or_default()
    }
}

/// Proposes what is in the queue for as long as the node lives.
pub struct Batcher {
    pub raft: Raft,
    pub proposals: Arc<Proposals>,
    pub host: Arc<dyn Host>,
    pub clock: Arc<dyn Clock>,
    pub limits: Limits,
    pub counters: Arc<Counters>,
}

impl Batcher {
    pub async fn run(self, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.propose() => {}
        }
        for Submission { command, origin, .. } in self.proposals.close() {
            refuse(&*self.host, &origin, command, Refusal::ShuttingDown);
        }
    }

    /// Returns when openraft has stopped.
    async fn propose(&self) {
        let in_flight = Arc::new(Semaphore::new(self.limits.entries_in_flight.max(1)));
        let mut stamp = Timestamp::default();
        loop {
            // A place first, then the commands: whatever arrives while we wait is part of the next entry.
            let Ok(place) = Arc::clone(&in_flight).acquire_owned().await else { return };
            let submissions = self.proposals.next(self.limits.entry_bytes).await;
            // A clock that steps back must not take time back with it.
            stamp = stamp.max(self.clock.now());
            self.counters.add_entry(submissions.len());
            let batch = Batch::new(stamp, submissions.iter().map(|submission| &submission.command));
            let completion = self.completion(place, batch.clone(), submissions);
            if self.raft.client_write_ff(batch, Some(completion)).await.is_err() {
                return;
            }
        }
    }

    fn completion(
        &self,
        place: OwnedSemaphorePermit,
        batch: Batch,
        submissions: Vec<Submission>,
    ) -> Completion<ClientWriteResult<TypeConfig>> {
        let host = Arc::clone(&self.host);
        let mut lease: Option<Lease> = None;
        let mut origins = Vec::with_capacity(submissions.len());
        for submission in submissions {
            match &mut lease {
                Some(lease) => lease.merge(submission.lease),
                None => lease = Some(submission.lease),
            }
            origins.push(submission.origin);
        }
        Completion::new(place, move |result| {
            // Only this error says that the entry never was in the log.
            if let Err(ClientWriteError::ForwardToLeader(_)) = result {
                for (command, origin) in batch.commands().zip(&origins) {
                    refuse(&*host, origin, command, Refusal::NotLeader);
                }
            }
            drop(lease);
        })
    }
}

/// Tells whoever submitted `command`. A follower that does not listen finds out by its own patience.
pub fn refuse(host: &dyn Host, origin: &Origin, command: Bytes, reason: Refusal) {
    match origin {
        Origin::Local => host.refused(command, reason),
        Origin::Remote(replies) => {
            if let Some(replies) = replies.upgrade() {
                let _ = replies.try_send(forward::refused(reason, vec![command]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposals(limits: &Limits) -> Proposals {
        Proposals::new(limits)
    }

    fn submit(proposals: &Proposals, length: usize) -> Result<(), Refusal> {
        proposals.submit(Bytes::from(vec![0; length]), Origin::Local)
    }

    fn lengths(picked: &[Submission]) -> Vec<usize> {
        picked.iter().map(|submission| submission.command.len()).collect()
    }

    #[test]
    fn an_entry_takes_what_fits_and_at_least_one() {
        let proposals = proposals(&Limits::default());
        for length in [40, 50, 20, 500, 1] {
            submit(&proposals, length).expect("there is room");
        }
        assert_eq!(lengths(&proposals.pick(100)), [40, 50]);
        assert_eq!(lengths(&proposals.pick(100)), [20]);
        assert_eq!(lengths(&proposals.pick(100)), [500], "larger than an entry, but alone");
        assert_eq!(lengths(&proposals.pick(100)), [1]);
        assert!(proposals.pick(100).is_empty());
    }

    #[test]
    fn what_is_picked_counts_until_it_is_dropped() {
        let limits = Limits { pending_commands: 2, ..Limits::default() };
        let proposals = proposals(&limits);
        submit(&proposals, 1).expect("room for the first");
        submit(&proposals, 1).expect("room for the second");
        let picked = proposals.pick(100);
        assert_eq!(submit(&proposals, 1), Err(Refusal::Overloaded));
        drop(picked);
        assert_eq!(submit(&proposals, 1), Ok(()));
        proposals.close();
        assert_eq!(submit(&proposals, 1), Err(Refusal::ShuttingDown));
    }
}
