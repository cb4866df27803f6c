//! How peers talk: one gRPC service, four connections to each peer, and openraft's network traits on top.
//!
//! | file | what |
//! |---|---|
//! | `connector` | from an address to a channel; the seam where TLS or a simulated network goes |
//! | `identity` | who calls whom in which cluster, checked on every call |
//! | `complaints` | callers that are turned away, named in the log once in a while |
//! | `reach` | peers that cannot be reached, and when that is over |
//! | `links` | the connections to each member, which follow it when its address changes |
//! | `wire` | messages to Raft's types and back, refusing what could hurt openraft |
//! | `append` | the replication pipeline over one long-lived stream |
//! | `network` | openraft's network traits |
//! | `service` | the receiving side |

mod append;
mod complaints;
mod connector;
mod identity;
mod links;
mod network;
mod reach;
mod service;
pub mod wire;

pub use self::connector::{ConnectError, Connector, Lane, TcpConnector, peer_listener};
pub(crate) use self::identity::Identity;
pub(crate) use self::links::{Link, Links};
pub(crate) use self::network::NetworkFactory;
pub use self::service::{PeerHandler, PeerService};

/// No message between peers is larger: the largest command, the rest of its entry and framing fit several times.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 20;
