//! Where a comparison takes place: a fresh etcd, and a fresh server to compare it with.

use std::sync::Arc;

use crate::cluster::{Cluster, ClusterConfig};
use crate::error::HarnessError;
use crate::peer::{EtcdBinaries, EtcdPeer};
use crate::run::Session;
use crate::side::{Falsifier, Side};

/// The server that is compared with etcd.
#[derive(Clone, Copy, Debug)]
pub enum Subject {
    /// Another etcd: the comparison itself is under test.
    Etcd,
    Setpointd {
        nodes: usize,
    },
}

#[derive(Clone)]
pub struct Stage {
    pub binaries: EtcdBinaries,
    pub subject: Subject,
    /// Makes what falsifies the subject's answers, anew for each session.
    pub falsifier: Option<Arc<dyn Fn() -> Falsifier + Send + Sync>>,
}

impl Stage {
    pub fn new(binaries: EtcdBinaries, subject: Subject) -> Self {
        Self { binaries, subject, falsifier: None }
    }

    /// Starts both servers.
    pub async fn open(&self) -> Result<Session, HarnessError> {
        let etcd = EtcdPeer::start(&self.binaries, 1).await?;
        let reference = Side::connect(&etcd.endpoints()).await?;
        let session = match self.subject {
            Subject::Etcd => {
                let other = EtcdPeer::start(&self.binaries, 1).await?;
                let subject = self.side(&other.endpoints()).await?;
                Session::compare(reference, subject).await?.keeping(other)
            }
            Subject::Setpointd { nodes } => {
                let cluster = in_memory_cluster(nodes).await?;
                let subject = self.side(&cluster.endpoints()).await?;
                Session::compare(reference, subject).await?.keeping(cluster)
            }
        };
        Ok(session.keeping(etcd))
    }

    async fn side(&self, endpoints: &[String]) -> Result<Side, HarnessError> {
        let mut side = Side::connect(endpoints).await?;
        if let Some(falsifier) = &self.falsifier {
            side.set_falsifier(falsifier());
        }
        Ok(side)
    }
}

/// A fresh setpointd to replay a record on.
pub async fn replay_session(nodes: usize) -> Result<Session, HarnessError> {
    let cluster = in_memory_cluster(nodes).await?;
    let side = Side::connect(&cluster.endpoints()).await?;
    Ok(Session::replay_on(side).await?.keeping(cluster))
}

/// A fresh etcd to replay a record on: the record itself is under test.
pub async fn replay_session_on_etcd(binaries: &EtcdBinaries) -> Result<Session, HarnessError> {
    let etcd = EtcdPeer::start(binaries, 1).await?;
    let side = Side::connect(&etcd.endpoints()).await?;
    Ok(Session::replay_on(side).await?.keeping(etcd))
}

/// A fresh etcd to record from.
pub async fn record_session(binaries: &EtcdBinaries) -> Result<Session, HarnessError> {
    let etcd = EtcdPeer::start(binaries, 1).await?;
    let side = Side::connect(&etcd.endpoints()).await?;
    Ok(Session::record_from(side).await?.keeping(etcd))
}

async fn in_memory_cluster(nodes: usize) -> Result<Cluster, HarnessError> {
    Cluster::start_with(ClusterConfig { nodes, in_memory: true, ..ClusterConfig::default() }).await
}
