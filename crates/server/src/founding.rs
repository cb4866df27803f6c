//! What the other founders know of a founder without data, asked before it becomes one.
//!
//! Founders number themselves, so one that has lost its disk would come back under its old id, and promise again what it
//! has promised otherwise before: votes and entries that the others count on. The others remember. Nobody has to be
//! reached: at the very first start nobody is up yet. What this cannot see is told in docs/adr/0005-membership.md.

use std::time::Duration;

use futures::future::join_all;
use setpoint_consensus::{AcquaintanceError, Connector, Standing, ask_standing};
use setpoint_types::{ClusterId, NodeId};

/// A node that is up answers in milliseconds, one that is down refuses as fast.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub enum FoundingError {
    #[error(
        "this node has taken part in the cluster as member {node}, says {other}, but its data folder is empty: what it \
         had promised is lost; remove the member (etcdctl member remove {node}) and start the node with --join \
         instead of --initial-cluster"
    )]
    LostData { node: NodeId, other: String },
    #[error(
        "member {node} was removed from the cluster, says {other}; start the node with --join instead of \
         --initial-cluster"
    )]
    Removed { node: NodeId, other: String },
    #[error(
        "{other} does not belong to the cluster that this node is to found: {reason}; the founding members have to be \
         given the same --initial-cluster and --cluster-token, and be restored from the same backup or from none"
    )]
    OtherCluster { other: String, reason: String },
}

/// Another founding member.
pub struct Founder {
    pub node: NodeId,
    pub name: String,
    pub address: String,
}

/// Refuses if one of the others knows that we must not start as `us` (invariants S16 and S17).
pub async fn check(
    connector: &dyn Connector,
    us: (ClusterId, NodeId),
    others: Vec<Founder>,
) -> Result<(), FoundingError> {
    let answers = others.into_iter().map(|founder| async move {
        let answer = ask_standing(connector, us, founder.node, &founder.address, PATIENCE).await;
        (format!("{} at {}", founder.name, founder.address), answer)
    });
    for (other, answer) in join_all(answers).await {
        match answer {
            Ok(Standing::TookPart) => return Err(FoundingError::LostData { node: us.1, other }),
            Ok(Standing::Removed) => return Err(FoundingError::Removed { node: us.1, other }),
            Ok(Standing::Member | Standing::Stranger) => {}
            Err(AcquaintanceError::Mismatch(reason)) => {
                return Err(FoundingError::OtherCluster { other, reason });
            }
            Err(error) => tracing::debug!(other, %error, "a founder could not be asked about us"),
        }
    }
    Ok(())
}
