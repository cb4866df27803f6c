//! Linearizable reads: up to which index must the local state have come?
//!
//! One round at a time asks, on the leader by the pledges of a quorum that it still leads (`authority`), elsewhere by
//! asking the leader. A round answers everybody who was waiting when it began; who comes later waits for the next one,
//! because an answer from before the question proves nothing. So any number of readers costs at most one round at a
//! time, and nobody waits for more than two. Never by lease: clocks are not trusted with correctness.
//!
//! A reader waits out an election, for as long as its patience lasts: a read changes nothing, so it may be asked again.

mod authority;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

pub use self::authority::Authority;

use crate::counters::Counters;
use crate::error::CallError;
use crate::forward::{Answer, Forwarder, Question};
use crate::node::Route;

/// Readers answered by one round. More than are ever waiting; a bound for the memory of one round.
const READERS_PER_ROUND: usize = 4096;
/// Between two rounds of which the first did not find a leader.
const RETRY_EVERY: Duration = Duration::from_millis(10);

struct Reader {
    /// Asked by a follower: only a leader may answer, and nobody is asked on its behalf.
    remote: bool,
    since: Instant,
    answer: oneshot::Sender<Result<u64, CallError>>,
}

/// What other parts of the node hold: asks for an index.
pub struct Reads {
    readers: mpsc::Sender<Reader>,
}

impl Reads {
    /// The index a local read has to wait for.
    pub async fn local(&self) -> Result<u64, CallError> {
        self.ask(false).await
    }

    /// The index a follower's read has to wait for there.
    pub async fn remote(&self) -> Result<u64, CallError> {
        self.ask(true).await
    }

    async fn ask(&self, remote: bool) -> Result<u64, CallError> {
        let (answer, answered) = oneshot::channel();
        let reader = Reader { remote, since: Instant::now(), answer };
        self.readers.try_send(reader).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => CallError::Overloaded,
            mpsc::error::TrySendError::Closed(_) => CallError::ShuttingDown,
        })?;
        answered.await.unwrap_or(Err(CallError::ShuttingDown))
    }
}

/// Holds the rounds, for as long as the node lives.
pub struct ReadRounds {
    authority: Arc<Authority>,
    forwarder: Arc<Forwarder>,
    route: watch::Receiver<Route>,
    counters: Arc<Counters>,
    patience: Duration,
    waiting: mpsc::Receiver<Reader>,
}

impl ReadRounds {
    pub fn new(
        authority: Arc<Authority>,
        forwarder: Arc<Forwarder>,
        route: watch::Receiver<Route>,
        counters: Arc<Counters>,
        patience: Duration,
        waiting_max: usize,
    ) -> (Reads, Self) {
        let (readers, waiting) = mpsc::channel(waiting_max.max(1));
        (Reads { readers }, Self { authority, forwarder, route, counters, patience, waiting })
    }

    pub async fn run(mut self, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.rounds() => {}
        }
    }

    /// Returns when nobody can ask any more.
    async fn rounds(&mut self) {
        let mut readers = Vec::new();
        while self.gather(&mut readers).await {
            self.counters.add_round(readers.len());
            let route = *self.route.borrow();
            let outcome = self.round(route).await;
            let again = matches!(outcome, Err(CallError::NoLeader | CallError::Broken));
            let for_remote = match route {
                Route::Here { .. } => &outcome,
                Route::Elsewhere { .. } | Route::Unknown => &Err(CallError::NoLeader),
            };
            let mut patient = Vec::new();
            for reader in readers.drain(..) {
                if reader.remote {
                    let _ = reader.answer.send(for_remote.clone());
                } else if again && reader.since.elapsed() < self.patience {
                    patient.push(reader);
                } else {
                    let _ = reader.answer.send(outcome.clone());
                }
            }
            readers = patient;
            if again {
                sleep(RETRY_EVERY).await;
            }
        }
    }

    /// Adds those who wait to `readers`, waiting for a first one if there is none. False when nobody can ask any more.
    async fn gather(&mut self, readers: &mut Vec<Reader>) -> bool {
        readers.retain(|reader| !reader.answer.is_closed());
        if readers.is_empty() {
            if self.waiting.recv_many(readers, READERS_PER_ROUND).await == 0 {
                return false;
            }
            // Whoever is about to ask gets the chance to: a round costs the same for one and for many.
            yield_now().await;
        }
        while readers.len() < READERS_PER_ROUND
            && let Ok(reader) = self.waiting.try_recv()
        {
            readers.push(reader);
        }
        true
    }

    async fn round(&self, route: Route) -> Result<u64, CallError> {
        match route {
            Route::Here { .. } => self.authority.confirm(self.patience).await,
            Route::Elsewhere { .. } => self.ask_leader().await,
            Route::Unknown => Err(CallError::NoLeader),
        }
    }

    async fn ask_leader(&self) -> Result<u64, CallError> {
        let asked = timeout(self.patience, self.forwarder.ask(Question::ReadIndex)).await;
        match asked.unwrap_or(Err(CallError::TimedOut))? {
            Answer::ReadIndex(index) => Ok(index),
            _ => Err(CallError::Broken),
        }
    }
}
