//! Where a comparison takes place: a fresh etcd, and a fresh server to compare it with.

use std::sync::Arc;

use crate::cluster::{Cluster, ClusterConfig};
use crate::error::HarnessError;
use crate::peer::{EtcdBinaries, EtcdPeer};
use crate::run::Session;
use crate::side::{Falsifier, Side};

/// A busy machine must not make a cluster elect a new leader in the middle of a comparison: it would show. The shortest
/// lease follows from the same setting, so etcd gets it too.
const PATIENCE: [&str; 2] = ["--election-timeout", "8s"];
const ETCD_PATIENCE: [&str; 1] = ["--election-timeout=8000"];

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
        let patient = matches!(self.subject, Subject::Setpointd { nodes } if nodes > 1);
        let arguments = if patient { ETCD_PATIENCE.map(str::to_owned).to_vec() } else { Vec::new() };
        let etcd = EtcdPeer::start_with(&self.binaries, 1, arguments).await?;
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
    let arguments = if nodes > 1 { PATIENCE.map(str::to_owned).to_vec() } else { Vec::new() };
    Cluster::start_with(ClusterConfig { nodes, arguments, in_memory: true, ..ClusterConfig::default() }).await
}
