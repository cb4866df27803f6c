//! What consensus tells the process: commands that came back, and the end.

use std::sync::Arc;

use bytes::Bytes;
use setpoint_apiserver::replica::Proposals;
use setpoint_consensus::{FatalError, Host, Refusal};
use setpoint_store::Store;
use setpoint_types::NodeId;
use tokio_util::sync::CancellationToken;

pub struct ServerHost {
    pub proposals: Arc<Proposals>,
    pub store: Arc<Store>,
    /// Cancelled when this replica can no longer be trusted; the process then ends with an error.
    pub failed: CancellationToken,
}

impl Host for ServerHost {
    fn refused(&self, command: Bytes, reason: Refusal) {
        self.proposals.refuse(command, reason);
    }

    /// A node publishes its name and addresses once it has caught up with the cluster it is in.
    fn has_met(&self, node: NodeId) -> bool {
        self.store.members().contains_key(&node)
    }

    fn fatal(&self, failure: FatalError) {
        tracing::error!(error = %failure, "this node cannot go on and stops; the others serve without it");
        self.failed.cancel();
    }
}
