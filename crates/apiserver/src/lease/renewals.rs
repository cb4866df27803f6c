//! Keep-alives on their way to the leader.
//!
//! All that arrive while one call is under way go with the next: one message and one proof of leadership for many
//! renewals, whichever node the clients are connected to.

use std::time::Duration;

use setpoint_api::setpoint::peer::v1 as wire;
use setpoint_api::setpoint::peer::v1::RenewLeases;
use setpoint_api::setpoint::peer::v1::leader_reply::Reply;
use setpoint_api::setpoint::peer::v1::leader_request::Request;
use setpoint_consensus::Node;
use setpoint_types::LeaseId;
use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::Observed;
use crate::etcd::error::EtcdError;
use crate::leader::ask_within;

/// Renewals per call.
const BATCH_MAX: usize = 4096;
/// What holders have seen, in entries per call. Beyond it, it is left to a later renewal: those are not to become slow.
const OBSERVED_MAX: usize = 8192;
/// Renewals that may wait; more find the queue full and wait themselves.
const QUEUE: usize = 16 * 1024;

/// How long a renewal waits for a leader, and how often it looks for one.
const PATIENCE: Duration = Duration::from_secs(3);
const RETRY_EVERY: Duration = Duration::from_millis(20);

#[derive(Clone)]
pub struct Renewals {
    queue: mpsc::Sender<Waiting>,
}

struct Waiting {
    id: LeaseId,
    observed: Observed,
    answer: oneshot::Sender<Result<i64, RenewError>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenewError {
    #[error("no leader could renew the lease")]
    NoLeader,
    #[error("the node is shutting down")]
    Stopped,
}

impl Renewals {
    /// `grace` is what a new leader adds to every lease.
    pub fn start(node: Node, grace: Duration, stop: CancellationToken) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE);
        tokio::spawn(forward(node, grace, waiting, stop));
        Self { queue }
    }

    /// The seconds granted anew, or 0 for a lease that does not exist.
    pub async fn renew(&self, id: LeaseId) -> Result<i64, RenewError> {
        self.renew_observing(id, Observed::new()).await
    }

    /// The same, and the leader is told what the holder has seen, if the call has room for it.
    pub async fn renew_observing(&self, id: LeaseId, observed: Observed) -> Result<i64, RenewError> {
        let (answer, renewed) = oneshot::channel();
        self.queue.send(Waiting { id, observed, answer }).await.map_err(|_| RenewError::Stopped)?;
        renewed.await.map_err(|_| RenewError::Stopped)?
    }
}

async fn forward(node: Node, grace: Duration, mut waiting: mpsc::Receiver<Waiting>, stop: CancellationToken) {
    let mut batch = Vec::new();
    loop {
        let received = tokio::select! {
            () = stop.cancelled() => return,
            received = waiting.recv_many(&mut batch, BATCH_MAX) => received,
        };
        if received == 0 {
            return;
        }
        // Whoever is about to renew gets the chance to: a call costs the same for one and for many.
        yield_now().await;
        while batch.len() < BATCH_MAX
            && let Ok(renewal) = waiting.try_recv()
        {
            batch.push(renewal);
        }
        let request = request(&mut batch);
        let ttls = tokio::select! {
            () = stop.cancelled() => Err(RenewError::Stopped),
            ttls = renew(&node, grace, request) => ttls,
        };
        for (place, waiting) in batch.drain(..).enumerate() {
            let answer = match &ttls {
                Ok(ttls) => Ok(ttls.get(place).copied().unwrap_or(0)),
                Err(error) => Err(*error),
            };
            // A closed receiver is a client that left.
            let _ = waiting.answer.send(answer);
        }
    }
}

fn request(batch: &mut [Waiting]) -> RenewLeases {
    let ids = batch.iter().map(|waiting| waiting.id.0).collect();
    let (mut observed, mut entries) = (Vec::new(), 0);
    for (place, waiting) in batch.iter_mut().enumerate() {
        entries += waiting.observed.len();
        if !waiting.observed.is_empty() && entries <= OBSERVED_MAX {
            let revisions = std::mem::take(&mut waiting.observed).into_iter().collect();
            observed.push(wire::Observed { place: u32::try_from(place).unwrap_or(u32::MAX), revisions });
        }
    }
    RenewLeases { ids, observed }
}

/// Asks again for a while: a leader is being elected, or has just been, and to renew twice does no harm.
async fn renew(node: &Node, grace: Duration, request: RenewLeases) -> Result<Vec<i64>, RenewError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match call(node, grace, request.clone()).await {
            Err(RenewError::NoLeader) if Instant::now() < deadline => sleep(RETRY_EVERY).await,
            outcome => return outcome,
        }
    }
}

async fn call(node: &Node, grace: Duration, renew: RenewLeases) -> Result<Vec<i64>, RenewError> {
    match ask_within(grace, node, Request::RenewLeases(renew)).await {
        Ok(Reply::LeasesRenewed(renewed)) => Ok(renewed.ttls),
        Err(EtcdError::Stopped) => Err(RenewError::Stopped),
        Ok(_) | Err(_) => Err(RenewError::NoLeader),
    }
}
