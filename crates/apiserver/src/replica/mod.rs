//! This node's copy of the data, joined to the cluster: commands go out through consensus, verdicts come back through
//! our own apply.
//!
//! - [`proposals`]: who waits for which verdict
//! - [`applier`]: committed entries into the store, changes into the watch hub, verdicts to their waiters, in that order
//! - [`generations`]: the state's folder, and switching it for a received snapshot
//! - [`halt`]: stopping the node when its storage fails outside of an apply
//!
//! Not here: what a request means (`etcd`).

mod applier;
mod generations;
mod halt;
mod proposals;

use std::sync::Arc;
use std::time::Duration;

use setpoint_consensus::{Node, ReadError, Refusal, Status, SubmitError};
use setpoint_store::command::{Command, Proposal};
use setpoint_store::{Rejection, Response, Store};
use setpoint_types::{ClusterId, NodeId};
use tokio::time::{Instant, timeout_at};

use crate::watch::Hub;

pub use applier::Applier;
pub use generations::{Engines, GenerationError, Generations};
pub use halt::Halt;
use proposals::Answer;
pub use proposals::Proposals;

/// Who we are, on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub cluster: ClusterId,
    pub member: NodeId,
}

/// The node as the services see it.
#[derive(Clone)]
pub struct Replica {
    pub identity: Identity,
    pub node: Node,
    pub store: Arc<Store>,
    pub hub: Arc<Hub>,
    proposals: Arc<Proposals>,
    patience: Duration,
}

/// Why a command has no verdict, or a refusal as one.
#[derive(Debug, thiserror::Error)]
pub enum ProposeError {
    #[error(transparent)]
    Rejected(#[from] Rejection),
    #[error("the command is larger than a request may be")]
    TooLarge,
    #[error("more commands wait than the node takes on")]
    Overloaded,
    #[error("no leader took the command in time; it was not applied")]
    NoLeader,
    #[error("the verdict did not arrive in time; the command may still be applied")]
    TimedOut {
        /// A leader was lost meanwhile, which is the likely reason.
        leader_lost: bool,
    },
    #[error("the node is shutting down")]
    Stopped,
}

/// How long a command that found no leader waits before it looks again.
const LEADER_RETRY: Duration = Duration::from_millis(20);

impl Replica {
    pub fn new(identity: Identity, node: Node, applier: &Applier, patience: Duration) -> Self {
        let (store, hub, proposals) = (applier.store.clone(), applier.hub.clone(), applier.proposals.clone());
        Self { identity, node, store, hub, proposals, patience }
    }

    /// Replicates a command and returns the verdict of our own apply, so that a local read afterwards sees its effect.
    /// A command that certainly was not proposed is proposed again while there is time.
    pub async fn propose(&self, command: Command) -> Result<Response, ProposeError> {
        let deadline = Instant::now() + self.patience;
        loop {
            match self.propose_once(&command, deadline).await {
                Err(ProposeError::NoLeader) if Instant::now() < deadline => {
                    tokio::time::sleep(LEADER_RETRY).await
                }
                verdict => return verdict,
            }
        }
    }

    async fn propose_once(&self, command: &Command, deadline: Instant) -> Result<Response, ProposeError> {
        let leader = self.leader();
        let (id, answer) = self.proposals.register();
        self.node.submit(Proposal::encode_of(id, command)).map_err(|error| match error {
            SubmitError::NoLeader => ProposeError::NoLeader,
            SubmitError::Overloaded => ProposeError::Overloaded,
            SubmitError::TooLarge { .. } => ProposeError::TooLarge,
            SubmitError::ShuttingDown => ProposeError::Stopped,
        })?;
        match timeout_at(deadline, answer).await {
            Ok(Ok(Answer::Applied(verdict))) => Ok(verdict?),
            Ok(Ok(Answer::Refused(Refusal::NotLeader))) => Err(ProposeError::NoLeader),
            Ok(Ok(Answer::Refused(Refusal::Overloaded))) => Err(ProposeError::Overloaded),
            Ok(Ok(Answer::Refused(Refusal::ShuttingDown)) | Err(_)) => Err(ProposeError::Stopped),
            Err(_elapsed) => Err(ProposeError::TimedOut { leader_lost: self.leader() != leader }),
        }
    }

    /// Returns once everything committed before the call can be read here.
    pub async fn read_barrier(&self) -> Result<(), ReadError> {
        self.node.read_barrier().await
    }

    /// How long a request may take before it is answered with a timeout.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    pub fn status(&self) -> Status {
        self.node.status().borrow().clone()
    }

    /// Commands of this node that wait for their verdict.
    pub fn pending(&self) -> usize {
        self.proposals.waiting()
    }

    pub fn leader(&self) -> Option<NodeId> {
        self.node.status().borrow().leader
    }

    pub fn is_leader(&self) -> bool {
        self.leader() == Some(self.identity.member)
    }
}
