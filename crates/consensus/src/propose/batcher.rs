//! The task that turns the commands in the queue into entries.

use std::sync::Arc;

use bytes::Bytes;
use openraft::error::ClientWriteError;
use openraft::raft::ClientWriteResult;
use setpoint_api::setpoint::peer::v1 as proto;
use setpoint_types::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::budget::Lease;
use super::completion::Completion;
use super::queue::{CommandQueue, Queued};
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

/// Commands taken and not yet part of an entry.
pub type Proposals = CommandQueue<Origin>;

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
        for Queued { command, origin, .. } in self.proposals.close() {
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
            self.proposals.filled().await;
            let picked = self.proposals.pick(self.limits.entry_bytes);
            // A clock that steps back must not take time back with it.
            stamp = stamp.max(self.clock.now());
            self.counters.add_entry(picked.len());
            let batch = Batch::new(stamp, picked.iter().map(|queued| &queued.command));
            let completion = self.completion(place, batch.clone(), picked);
            if self.raft.client_write_ff(batch, Some(completion)).await.is_err() {
                return;
            }
        }
    }

    fn completion(
        &self,
        place: OwnedSemaphorePermit,
        batch: Batch,
        picked: Vec<Queued<Origin>>,
    ) -> Completion<ClientWriteResult<TypeConfig>> {
        let host = Arc::clone(&self.host);
        let mut lease: Option<Lease> = None;
        let mut origins = Vec::with_capacity(picked.len());
        for queued in picked {
            match &mut lease {
                Some(lease) => lease.merge(queued.lease),
                None => lease = Some(queued.lease),
            }
            origins.push(queued.origin);
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
