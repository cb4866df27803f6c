//! The node that the agent speaks for.
//!
//! - [`capacity`]: what the host has
//! - [`hold`]: the node's lease, kept beside the log, and until when it is good
//! - [`register`]: the Node object
//! - [`identity`]: who this agent is, across its restarts
//! - [`pressure`]: whether the host runs short

pub mod capacity;
pub mod hold;
pub mod identity;
pub mod pressure;
pub mod register;

/// Where the leases of nodes are.
pub const NAMESPACE: &str = "setpoint-system";

/// What the lease of a node is called.
pub fn lease_name(node: &str) -> String {
    format!("node-{node}")
}
