//! What nodes know of each other besides Raft: who has taken part, and who was removed.
//!
//! Two kinds of node ask. A founder without data asks the other founders whether it has taken part before: then its data
//! is lost, and with it the votes and entries it had promised to remember. A node that no leader talks to asks whether it
//! is still a member: nobody tells a node that it was removed, because nobody talks to it any more. Not here: what a
//! founder does with the answer (the server), and who is refused (`transport::service`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use setpoint_api::setpoint::peer::v1 as proto;
use setpoint_api::setpoint::peer::v1::acquaintance_reply::Standing as Wire;
use setpoint_api::setpoint::peer::v1::peer_client::PeerClient;
use setpoint_types::{ClusterId, NodeId};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::Node;
use super::status::Status;
use crate::host::Host;
use crate::raft::Raft;
use crate::transport::{Connector, Identity, Lane, Link, Links};

/// What a node knows of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// No member, as far as is known.
    Stranger,
    /// A member that is not known to have done anything yet.
    Member,
    /// A member that has acknowledged entries or spoken for itself, in this life or an earlier one.
    TookPart,
    /// It was a member.
    Removed,
}

impl Standing {
    pub(crate) fn into_wire(self) -> Wire {
        match self {
            Self::Stranger => Wire::Stranger,
            Self::Member => Wire::Member,
            Self::TookPart => Wire::TookPart,
            Self::Removed => Wire::Removed,
        }
    }

    fn read(reply: proto::AcquaintanceReply) -> Self {
        match reply.standing() {
            Wire::Member => Self::Member,
            Wire::TookPart => Self::TookPart,
            Wire::Removed => Self::Removed,
            // What only a newer version knows is nothing we could act upon.
            Wire::Stranger | Wire::Unspecified => Self::Stranger,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum AcquaintanceError {
    /// There is a node, but of another cluster, or another one than was expected.
    #[error("{0}")]
    Mismatch(String),
    #[error("no answer: {0}")]
    Unreachable(String),
}

/// Asks the node `to` at `address` what it knows of the node that `us` names. Needs no running node.
pub async fn ask_standing(
    connector: &dyn Connector,
    us: (ClusterId, NodeId),
    to: NodeId,
    address: &str,
    patience: Duration,
) -> Result<Standing, AcquaintanceError> {
    let unreachable = |problem: String| AcquaintanceError::Unreachable(problem);
    let channel =
        connector.connect(address, Lane::Control).map_err(|error| unreachable(error.to_string()))?;
    let identity = Identity { cluster: us.0, node: us.1 };
    let request = identity.request(to, proto::AcquaintanceRequest {});
    let asked = timeout(patience, PeerClient::new(channel).acquaintance(request)).await;
    match asked.map_err(|_| unreachable("nobody answers in time".to_owned()))? {
        Ok(reply) => Ok(Standing::read(reply.into_inner())),
        Err(status) if status.code() == tonic::Code::FailedPrecondition => {
            Err(AcquaintanceError::Mismatch(status.message().to_owned()))
        }
        Err(status) => Err(unreachable(status.message().to_owned())),
    }
}

impl Node {
    /// What this node knows of another one.
    pub fn standing(&self, node: NodeId) -> Standing {
        let record = self.inner.progress.record();
        if record.is_former(node) {
            return Standing::Removed;
        }
        if !record.contains(node) {
            return Standing::Stranger;
        }
        let Inquiry { links, host, .. } = &self.inner.inquiry;
        let acknowledged = links.get(node).is_ok_and(|link| link.acknowledged.any());
        if acknowledged || host.has_met(node) { Standing::TookPart } else { Standing::Member }
    }

    /// True once another node has told us that we were removed.
    pub fn is_removed(&self) -> bool {
        self.inner.inquiry.is_removed()
    }

    /// True if the node was a member and is none any more. Asked at every call, so it looks at nothing else.
    pub(crate) fn was_removed(&self, node: NodeId) -> bool {
        self.inner.progress.is_former(node)
    }

    /// Returns once the node was a member and is none any more.
    pub(crate) async fn until_removed(&self, node: NodeId) {
        self.inner.progress.removed(node).await;
    }
}

/// What this node has learned of the others, and whether it was removed, as they say.
#[derive(Clone)]
pub struct Inquiry {
    links: Arc<Links>,
    host: Arc<dyn Host>,
    raft: Raft,
    removed: Arc<AtomicBool>,
    /// How long to be without a leader before asking, and between questions.
    pause: Duration,
}

impl Inquiry {
    pub fn new(links: Arc<Links>, host: Arc<dyn Host>, raft: Raft, pause: Duration) -> Self {
        Self { links, host, raft, removed: Arc::default(), pause }
    }

    pub fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Relaxed)
    }

    /// Asks whenever there has been no leader for a while, until the answer is yes.
    pub async fn run(self, mut status: watch::Receiver<Status>, shutdown: CancellationToken) {
        let asking = async {
            while !self.is_removed() {
                if status.wait_for(|status| status.leader.is_none()).await.is_err() {
                    return;
                }
                sleep(self.pause).await;
                if status.borrow().leader.is_none() {
                    self.ask().await;
                }
            }
        };
        shutdown.run_until_cancelled(asking).await;
    }

    /// Asks all the others at once. True if one of them has seen us go.
    pub async fn ask(&self) -> bool {
        let ask = |link: Arc<Link>| async move {
            let mut client = link.client(Lane::Control).ok()?;
            let asked = client.acquaintance(link.request(proto::AcquaintanceRequest {}));
            let reply = timeout(self.pause, asked).await.ok()?.ok()?;
            Some((link.node, Standing::read(reply.into_inner())))
        };
        let mut answers: FuturesUnordered<_> = self.links.all().into_iter().map(ask).collect();
        while let Some(answer) = answers.next().await {
            if let Some((node, Standing::Removed)) = answer {
                self.believe(node);
                return true;
            }
        }
        false
    }

    fn believe(&self, node: NodeId) {
        if self.removed.swap(true, Ordering::Relaxed) {
            return;
        }
        // Nobody would vote for us; let nobody be asked.
        self.raft.runtime_config().elect(false);
        error!(
            "this node was removed from the cluster, says node {node}; it serves only what it has. Stop it; to take it \
             in again, empty its data folder and start it with --join"
        );
    }
}
