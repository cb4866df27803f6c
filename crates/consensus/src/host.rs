//! What the node asks of, and reports to, the process around it.

use bytes::Bytes;
use futures::future::BoxFuture;
use setpoint_types::{ClusterId, NodeId};

use crate::node::Node;
use crate::peer::Peer;

/// Told of what no return value can say. Called from the middle of consensus: must not block.
pub trait Host: Send + Sync + 'static {
    /// A command that `Node::submit` took was certainly not proposed, here or at the leader. It may be submitted
    /// again. A command about which nothing certain is known, because a leader or a connection was lost, is never
    /// reported: it shows up in the log or it does not.
    fn refused(&self, command: Bytes, reason: Refusal);

    /// True if the state machine has seen the node take part, in this life or an earlier one.
    fn has_met(&self, node: NodeId) -> bool;

    /// This node has stopped and will not recover by itself: its log or its state machine failed. Called once.
    fn fatal(&self, failure: FatalError);
}

/// Why a command was not proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The node it reached does not lead, or cannot be sure that it still does.
    NotLeader,
    Overloaded,
    ShuttingDown,
}

#[derive(Clone, Debug, thiserror::Error)]
#[error("consensus stopped: {0}")]
pub struct FatalError(pub(crate) String);

/// Answers what only the leader can answer. Runs on the leader, also for questions asked elsewhere.
pub trait LeaderService: Send + Sync + 'static {
    /// A request that another node, or this one, gave to `Node::call_leader`.
    fn call(
        &self,
        node: &Node,
        request: Bytes,
        mandate: Mandate,
    ) -> BoxFuture<'static, Result<Bytes, ServiceRefusal>>;

    /// A machine wants to become a member. Decides whether, allocates its id and adds it.
    fn join(&self, node: &Node, newcomer: Newcomer) -> BoxFuture<'static, Result<Admission, ServiceRefusal>>;
}

/// How sure it is that this node leads, for a request that may not be answered by a deposed leader. `Node::settle` makes
/// sure and waits for the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mandate {
    /// A quorum agreed after the request was made. Whatever was acknowledged before it lies at or below `index`.
    Confirmed {
        index: u64,
    },
    Unconfirmed,
}

/// The leader considered a request and said no.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceRefusal {
    /// Whoever asks again is told the same.
    #[error("{0}")]
    Final(String),
    /// It may be otherwise in a moment.
    #[error("{0}")]
    NotNow(String),
}

/// A machine that is not a member yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newcomer {
    pub name: String,
    /// `host:port` of its peer listener, as the members can reach it.
    pub address: String,
}

/// What a machine needs to know in order to start as a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    pub cluster: ClusterId,
    pub node: NodeId,
    pub members: Vec<Member>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub node: NodeId,
    pub peer: Peer,
    pub voter: bool,
}
