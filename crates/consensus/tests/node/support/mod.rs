//! What the tests share: a toy machine, a network that can be cut, and clusters on loopback.

mod cluster;
mod host;
mod machine;
mod network;

pub use cluster::{Cluster, Options, TestNode, eventually};
pub use host::TestHost;
pub use machine::ToyMachine;
pub use network::TestNetwork;

use bytes::Bytes;

pub fn bytes(text: impl Into<String>) -> Bytes {
    Bytes::from(text.into())
}
