//! Linearizable reads: up to which index must the local state have come?
//!
//! One round at a time asks, on the leader by confirming with a quorum that it still leads, elsewhere by asking the
//! leader. A round answers everybody who was waiting when it began; who comes later waits for the next one, because an
//! answer from before the question proves nothing. So any number of readers costs at most one round at a time, and
//! nobody waits for more than two. Never by lease: clocks are not trusted with correctness.

use std::sync::Arc;
use std::time::Duration;

use openraft::LinearizerOption;
use openraft::error::{LinearizableReadError, RaftError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::counters::Counters;
use crate::error::CallError;
use crate::forward::{Answer, Forwarder, Question};
use crate::node::Route;
use crate::raft::Raft;

/// Readers answered by one round. More than are ever waiting; a bound for the memory of one round.
const READERS_PER_ROUND: usize = 4096;

struct Reader {
    /// Asked by a follower: only a leader may answer, and nobody is asked on its behalf.
    remote: bool,
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
        self.readers.try_send(Reader { remote, answer }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => CallError::Overloaded,
            mpsc::error::TrySendError::Closed(_) => CallError::ShuttingDown,
        })?;
        answered.await.unwrap_or(Err(CallError::ShuttingDown))
    }
}

/// Holds the rounds, for as long as the node lives.
pub struct ReadRounds {
    pub raft: Raft,
    pub forwarder: Arc<Forwarder>,
    pub route: watch::Receiver<Route>,
    pub counters: Arc<Counters>,
    pub patience: Duration,
    waiting: mpsc::Receiver<Reader>,
}

impl ReadRounds {
    pub fn new(
        raft: Raft,
        forwarder: Arc<Forwarder>,
        route: watch::Receiver<Route>,
        counters: Arc<Counters>,
        patience: Duration,
        waiting_max: usize,
    ) -> (Reads, Self) {
        let (readers, waiting) = mpsc::channel(waiting_max.max(1));
        (Reads { readers }, Self { raft, forwarder, route, counters, patience, waiting })
    }

    pub async fn run(mut self, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.rounds() => {}
        }
    }

    async fn rounds(&mut self) {
        let mut readers = Vec::new();
        while self.waiting.recv_many(&mut readers, READERS_PER_ROUND).await > 0 {
            readers.retain(|reader| !reader.answer.is_closed());
            if readers.is_empty() {
                continue;
            }
            self.counters.add_round(readers.len());
            let route = *self.route.borrow();
            let (outcome, for_remote) = match route {
                Route::Here { .. } => {
                    let outcome = self.confirm().await;
                    (outcome.clone(), outcome)
                }
                Route::Elsewhere { .. } if readers.iter().any(|reader| !reader.remote) => {
                    (self.ask_leader().await, Err(CallError::NoLeader))
                }
                Route::Elsewhere { .. } | Route::Unknown => {
                    (Err(CallError::NoLeader), Err(CallError::NoLeader))
                }
            };
            for Reader { remote, answer } in readers.drain(..) {
                let _ = answer.send(if remote { for_remote.clone() } else { outcome.clone() });
            }
        }
    }

    /// Asks a quorum whether this node still leads.
    async fn confirm(&self) -> Result<u64, CallError> {
        // Nothing known from before counts, and staleness sends a heartbeat at once.
        let option = LinearizerOption::new(Some(Duration::ZERO), true).with_wait_timeout(self.patience);
        match self.raft.get_read_linearizer(option).await {
            Ok(linearizer) => Ok(linearizer.read_log_id().index()),
            Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(_))) => Err(CallError::NoLeader),
            Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => Err(CallError::NoQuorum),
            Err(RaftError::Fatal(_)) => Err(CallError::ShuttingDown),
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
