//! How a member of the cluster is reached by the others. Replicated as part of the Raft membership.

use std::fmt;

/// What the membership records for a node besides its id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The name its operator gave it; empty until a member that was announced by address alone has joined.
    pub name: String,
    /// `host:port` of its peer listener.
    pub address: String,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.address)
    }
}
