//! The systems under test: how a node of each is started, and the cluster of three that is measured.
//!
//! Every system is driven through the same etcd v3 API, but for the rows about objects. What differs is the command line of a node, one file each.

mod binaries;
mod cluster;
mod etcd;
mod floor;
mod ports;
mod process;
mod setpoint;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

pub use binaries::Binaries;
pub use cluster::{Cluster, NodeIndex};
pub use floor::serve as serve_floor;
pub use ports::free as free_ports;
pub use process::Process;

use crate::options::Subject;

/// A system that can be started as a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    Setpoint,
    Etcd,
    /// Answers at once without doing anything: what the gRPC stack alone costs.
    Floor,
}

/// One node to start.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    pub name: String,
    pub client: SocketAddr,
    pub peer: SocketAddr,
    pub http: SocketAddr,
    pub data: PathBuf,
}

/// Why a system could not be started or looked at.
#[derive(Debug, thiserror::Error)]
pub enum SystemError {
    #[error("cannot prepare a folder for the cluster's data")]
    Folder(#[source] std::io::Error),
    #[error("no {0} consecutive free ports on the loopback interface")]
    Ports(usize),
    #[error("cannot start {program}")]
    Spawn { program: PathBuf, source: std::io::Error },
    #[error("node {name} ended by itself ({status}); its last words: {log}")]
    Ended { name: String, status: String, log: String },
    #[error("node {name} did not serve within {seconds} s; its last words: {log}")]
    NotServing { name: String, seconds: u64, log: String },
    #[error("no node says it leads")]
    NoLeader,
    #[error("node {name} did not stop")]
    Stop { name: String, source: std::io::Error },
    #[error("node {name} cannot be observed")]
    Observe { name: String, source: std::io::Error },
}

impl System {
    pub fn name(self) -> &'static str {
        match self {
            Self::Setpoint => "setpoint",
            Self::Etcd => "etcd",
            Self::Floor => "floor",
        }
    }

    fn command(self, binaries: &Binaries, node: &NodeSpec, cluster: &[NodeSpec]) -> Command {
        match self {
            Self::Setpoint => setpoint::command(&binaries.setpointd, node, cluster),
            Self::Etcd => etcd::command(&binaries.etcd, node, cluster),
            Self::Floor => floor::command(&binaries.bench, node),
        }
    }
}

impl From<Subject> for System {
    fn from(subject: Subject) -> Self {
        match subject {
            Subject::Setpoint => Self::Setpoint,
            Subject::Etcd => Self::Etcd,
        }
    }
}
