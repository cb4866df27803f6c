//! Handing the leadership over, and stopping in good order.

use std::sync::Arc;
use std::time::Duration;

use setpoint_types::NodeId;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::warn;

use super::members::lag;
use super::status::Status;
use super::{Node, Route};
use crate::error::MemberError;

/// A successor has to catch up before it can take over, and nothing is proposed meanwhile.
const SUCCESSOR_LAG_MAX: u64 = 5_000;
/// Patience for our own tasks when they are told to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// Patience for the disk.
const FLUSH_PATIENCE: Duration = Duration::from_secs(30);

impl Node {
    /// Makes `to`, a voter that has nearly all of the log, the leader. Returns when it leads.
    pub async fn transfer_leader(&self, to: NodeId) -> Result<(), MemberError> {
        let status = self.leading()?;
        if to == self.id() {
            return Ok(());
        }
        let member = status.members.get(&to).ok_or(MemberError::NotFound { id: to })?;
        if !member.voter {
            return Err(MemberError::NotVoter { id: to });
        }
        if lag(&status, member) > SUCCESSOR_LAG_MAX {
            return Err(MemberError::TransferFailed { to });
        }
        let mut route = self.inner.route.clone();
        self.inner.raft.trigger().transfer_leader(to.0).await.map_err(|_| MemberError::Stopped)?;
        // Not merely gone from here: somebody else has to lead.
        let moved = route.wait_for(|route| route.elsewhere().is_some());
        match timeout(self.inner.config.timing.transfer, moved).await {
            Ok(Ok(route)) if route.elsewhere() == Some(to) => Ok(()),
            Ok(Err(_)) => Err(MemberError::Stopped),
            Ok(Ok(_)) | Err(_) => Err(MemberError::TransferFailed { to }),
        }
    }

    /// Makes the voter with most of the log the leader.
    pub(super) async fn hand_over(&self, status: &Status) -> Result<(), MemberError> {
        let others = status.members.iter().filter(|(id, member)| member.voter && **id != self.id());
        let Some((to, _)) = others.max_by_key(|(_, member)| member.matched) else {
            return Err(MemberError::LastVoter { id: self.id() });
        };
        self.transfer_leader(*to).await
    }

    /// Hands the leadership over if this node has it and somebody can take it; the node goes on as a follower.
    pub async fn resign(&self) {
        let recent = 2 * self.inner.config.timing.election_max;
        if let Ok(status) = self.leading()
            && status.voters().any(|voter| voter != self.id())
            // Without a quorum nobody can be elected, and waiting for it would only delay the stop.
            && status.quorum_acked.is_some_and(|at| at.elapsed() < recent)
            && let Err(error) = self.hand_over(&status).await
        {
            warn!(%error, "stopping while leading; the others elect a new leader");
        }
    }

    /// Stops the node: hands the leadership over if it can, refuses what waits, and makes the state durable. Bounded
    /// in time; safe to call twice. Afterwards every request fails.
    pub async fn shutdown(&self) {
        self.resign().await;
        self.end().await;
    }

    /// The same for a node that has resigned already, or has nothing to hand over.
    pub async fn end(&self) {
        self.inner.shutdown.cancel();
        self.inner.tasks.close();
        if let Err(error) = self.inner.raft.shutdown().await {
            warn!(%error, "openraft did not stop in good order");
        }
        if timeout(STOP_PATIENCE, self.inner.tasks.wait()).await.is_err() {
            warn!("some tasks of the node did not stop in time");
        }
        self.make_durable().await;
    }

    /// Waits for the log's last write and flushes the state, so that the next start has nothing to replay.
    async fn make_durable(&self) {
        let machine = Arc::clone(&self.inner.machine);
        let log_thread = self.inner.log_thread.lock().take();
        let durable = spawn_blocking(move || {
            if let Some(log_thread) = log_thread {
                log_thread.join();
            }
            machine.flush()
        });
        match timeout(FLUSH_PATIENCE, durable).await {
            Ok(Ok(Ok(_))) => {}
            Ok(Ok(Err(error))) => warn!(%error, "the state was not flushed; the log will be replayed"),
            Ok(Err(error)) => warn!(%error, "the state was not flushed; the log will be replayed"),
            Err(_) => warn!("the state was not flushed in time; the log will be replayed"),
        }
    }

    /// Returns once some node is known to lead, and says which.
    pub async fn leader(&self) -> Option<NodeId> {
        let mut route = self.inner.route.clone();
        let known = route.wait_for(|route| *route != Route::Unknown).await.ok()?;
        Some(known.elsewhere().unwrap_or(self.id()))
    }
}
