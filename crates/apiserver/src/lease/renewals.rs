//! Keep-alives on their way to the leader.
//!
//! All that arrive while one call is under way go with the next: one message and one proof of leadership for many
//! renewals, whichever node the clients are connected to. Calls keep a distance: holders who each renew at a time of their own
//! would else cost a call each.

use std::time::Duration;

use setpoint_api::setpoint::peer::v1 as wire;
use setpoint_api::setpoint::peer::v1::RenewLeases;
use setpoint_api::setpoint::peer::v1::leader_reply::Reply;
use setpoint_api::setpoint::peer::v1::leader_request::Request;
use setpoint_consensus::Node;
use setpoint_types::LeaseId;
use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::Observed;
use crate::etcd::error::EtcdError;
use crate::leader::ask_within;

/// Renewals per call.
const BATCH_MAX: usize = 4096;
/// From one call to the next, unless so many wait. It is nothing beside the seconds that a renewal is about.
const DISTANCE: Duration = Duration::from_millis(5);
const ENOUGH: usize = 128;
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
    let (mut batch, mut next) = (Vec::new(), Instant::now());
    loop {
        let received = tokio::select! {
            () = stop.cancelled() => return,
            received = waiting.recv_many(&mut batch, BATCH_MAX) => received,
        };
        if received == 0 {
            return;
        }
        gather(&mut waiting, &mut batch, next).await;
        next = Instant::now() + DISTANCE;
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

/// Waits for others until a call may be made, or enough are there.
async fn gather(waiting: &mut mpsc::Receiver<Waiting>, batch: &mut Vec<Waiting>, until: Instant) {
    let more = async {
        while batch.len() < ENOUGH {
            let room = BATCH_MAX - batch.len();
            if waiting.recv_many(batch, room).await == 0 {
                return;
            }
        }
    };
    let _ = timeout_at(until, more).await;
    // Whoever is about to renew gets the chance to: a call costs the same for one and for many.
    yield_now().await;
    while batch.len() < BATCH_MAX
        && let Ok(renewal) = waiting.try_recv()
    {
        batch.push(renewal);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(id: i64) -> Waiting {
        Waiting { id: LeaseId(id), observed: Observed::new(), answer: oneshot::channel().0 }
    }

    #[tokio::test(start_paused = true)]
    async fn renewals_of_a_few_milliseconds_go_with_one_call() {
        let (queue, mut renewals) = mpsc::channel(QUEUE);
        let until = Instant::now() + DISTANCE;
        let mut batch = vec![waiting(0)];
        let others = async {
            for id in 1..=3 {
                sleep(Duration::from_millis(1)).await;
                let _ = queue.send(waiting(id)).await;
            }
            // Too late for this call.
            sleep(DISTANCE).await;
            let _ = queue.send(waiting(4)).await;
        };
        tokio::join!(gather(&mut renewals, &mut batch, until), others);
        let ids: Vec<i64> = batch.iter().map(|it| it.id.0).collect();
        assert_eq!(ids, [0, 1, 2, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_does_not_wait_when_it_is_due_or_many_do() {
        let (queue, mut renewals) = mpsc::channel(QUEUE);
        let now = Instant::now();
        gather(&mut renewals, &mut vec![waiting(0)], now).await;
        for id in 0..ENOUGH {
            queue.try_send(waiting(id as i64)).expect("there is room");
        }
        gather(&mut renewals, &mut vec![waiting(0)], now + DISTANCE).await;
        assert_eq!(Instant::now(), now);
    }
}
