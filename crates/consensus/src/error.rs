//! The errors of the node's interface, one enum per kind of request.

use std::path::PathBuf;

use setpoint_types::NodeId;

use crate::host::{Refusal, ServiceRefusal};
use crate::log::LogError;
use crate::machine::MachineFailure;

/// The node cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the timing is contradictory: {0}")]
    Config(String),
    #[error("the raft log in {} cannot be opened", directory.display())]
    Log {
        directory: PathBuf,
        #[source]
        source: LogError,
    },
    #[error("the directory {} cannot be prepared", directory.display())]
    Directory {
        directory: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the state machine cannot be read")]
    Machine(#[source] MachineFailure),
    #[error("the log and the state machine do not fit together: {0}")]
    Inconsistent(String),
}

/// The command was certainly not proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    #[error("no leader is known")]
    NoLeader,
    #[error("too many commands are pending")]
    Overloaded,
    #[error("the command has {bytes} bytes; at most {max} are accepted")]
    TooLarge { bytes: usize, max: usize },
    #[error("the node is shutting down")]
    ShuttingDown,
}

impl From<Refusal> for SubmitError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotLeader => Self::NoLeader,
            Refusal::Overloaded => Self::Overloaded,
            Refusal::ShuttingDown => Self::ShuttingDown,
        }
    }
}

/// The barrier was not passed: a read now might miss what was committed before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("no leader is known, or it just changed")]
    NoLeader,
    #[error("the leader could not confirm with a quorum that it still leads")]
    NoQuorum,
    #[error("the local state did not catch up in time")]
    TimedOut,
    #[error("too many reads are waiting")]
    Overloaded,
    #[error("the node is shutting down")]
    ShuttingDown,
}

/// No answer from the leader.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error("no leader is known, or it just changed; the request was not considered")]
    NoLeader,
    #[error("the leader could not confirm with a quorum that it still leads")]
    NoQuorum,
    #[error("too many requests are waiting")]
    Overloaded,
    #[error("the node is shutting down")]
    ShuttingDown,
    #[error("the connection to the leader broke; whether it considered the request is not known")]
    Broken,
    #[error("the leader did not answer in time; whether it considered the request is not known")]
    TimedOut,
    #[error("the leader refused")]
    Refused(#[source] ServiceRefusal),
}

impl From<CallError> for ReadError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::NoQuorum => Self::NoQuorum,
            CallError::TimedOut => Self::TimedOut,
            CallError::Overloaded => Self::Overloaded,
            CallError::ShuttingDown => Self::ShuttingDown,
            // A barrier changes nothing, so what became of the question does not matter.
            CallError::NoLeader | CallError::Broken | CallError::Refused(_) => Self::NoLeader,
        }
    }
}

/// The membership was not changed, or not certainly.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    #[error("this node does not lead")]
    NotLeader { leader: Option<NodeId> },
    #[error("the leader could not confirm with a quorum that it still leads")]
    NoQuorum,
    #[error("the cluster is already initialized")]
    AlreadyInitialized,
    #[error("the first members have to include this node, and none of them may have the id 0")]
    BadMembers,
    #[error("node id {id} is or was a member's; ids up to {highest} are used up")]
    IdUsed { id: NodeId, highest: NodeId },
    #[error("node {id} is not a member")]
    NotFound { id: NodeId },
    #[error("node {id} is not a voter")]
    NotVoter { id: NodeId },
    #[error("node {id} is not a learner")]
    NotLearner { id: NodeId },
    #[error("learner {id} lags {lag} entries behind and may not vote yet")]
    LearnerNotReady { id: NodeId, lag: u64 },
    #[error("node {id} is the only voter")]
    LastVoter { id: NodeId },
    #[error("another change of the membership is in progress")]
    InProgress,
    #[error("node {to} did not take over the leadership in time")]
    TransferFailed { to: NodeId },
    #[error("whether the change was committed is not known")]
    Unknown,
    #[error("the node has stopped")]
    Stopped,
}
