//! The cluster that the client tests run against: ours, or a real etcd to see that the tests themselves are right.
//!
//! `SETPOINT_CLIENTS_TARGET=etcd` chooses the latter.

use crate::cluster::{Cluster, ClusterConfig};
use crate::error::HarnessError;
use crate::peer::{EtcdBinaries, EtcdPeer};

pub enum Testbed {
    Setpointd(Cluster),
    Etcd(EtcdPeer),
}

impl Testbed {
    /// A cluster of that many nodes, ready to serve.
    pub async fn start(nodes: usize) -> Result<Self, HarnessError> {
        if std::env::var_os("SETPOINT_CLIENTS_TARGET").is_some_and(|target| target == "etcd") {
            return Ok(Self::Etcd(EtcdPeer::start(&EtcdBinaries::find()?, nodes).await?));
        }
        // Busy machines must not make it elect leaders that no test asked for.
        let arguments = ["--election-timeout", "3s"].map(str::to_owned).to_vec();
        let config = ClusterConfig { nodes, arguments, ..ClusterConfig::default() };
        Ok(Self::Setpointd(Cluster::start_with(config).await?))
    }

    /// The client URL of every node.
    pub fn endpoints(&self) -> Vec<String> {
        match self {
            Self::Setpointd(cluster) => cluster.endpoints(),
            Self::Etcd(etcd) => etcd.endpoints(),
        }
    }

    /// Prepares a node that does not belong to the cluster yet. Returns its index.
    pub fn add_node(&mut self) -> Result<usize, HarnessError> {
        match self {
            Self::Setpointd(cluster) => {
                let peers: Vec<&str> = cluster.nodes().iter().map(|node| node.peer.as_str()).collect();
                let arguments = vec!["--join".to_owned(), peers.join(",")];
                cluster.add_node(arguments)
            }
            Self::Etcd(etcd) => etcd.add_member(),
        }
    }

    /// The address under which other nodes reach this one.
    pub fn peer_address(&self, index: usize) -> &str {
        match self {
            Self::Setpointd(cluster) => &cluster.nodes()[index].peer,
            Self::Etcd(etcd) => etcd.peer_address(index),
        }
    }

    /// Starts a node's process, without waiting until it serves.
    pub fn start_node(&mut self, index: usize) -> Result<(), HarnessError> {
        match self {
            Self::Setpointd(cluster) => cluster.start_node(index),
            Self::Etcd(etcd) => etcd.start_member(index),
        }
    }

    /// Ends a node's process without warning.
    pub fn kill(&mut self, index: usize) {
        match self {
            Self::Setpointd(cluster) => cluster.kill(index),
            Self::Etcd(etcd) => etcd.kill(index),
        }
    }

    /// Waits until every running node serves.
    pub async fn ready(&mut self) -> Result<(), HarnessError> {
        match self {
            Self::Setpointd(cluster) => cluster.ready().await,
            Self::Etcd(etcd) => etcd.ready().await,
        }
    }
}
