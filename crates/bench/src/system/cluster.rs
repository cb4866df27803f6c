//! A running cluster, of three nodes unless said otherwise: started fresh, looked at from outside, and gone when dropped.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use setpoint_api::etcdserverpb::StatusRequest;
use setpoint_api::etcdserverpb::maintenance_client::MaintenanceClient;
use tempfile::TempDir;

use super::process::Process;
use super::{Binaries, NodeSpec, System, SystemError, ports};
use crate::connection::connection;
use crate::measure::memory::Resident;
use crate::measure::{cpu, disk, memory};
use crate::probe;

const NODES: usize = 3;
const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_PATIENCE: Duration = Duration::from_secs(30);

/// Which node of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeIndex(usize);

pub struct Cluster {
    system: System,
    binaries: Binaries,
    // Declared before the folder, so that the processes are gone when it is removed.
    nodes: Vec<Node>,
    folder: TempDir,
}

struct Node {
    spec: NodeSpec,
    process: Process,
}

impl Cluster {
    /// Starts a fresh cluster with its data in a new folder under `parent`, and waits until every node serves.
    pub async fn start(system: System, binaries: &Binaries, parent: &Path) -> Result<Self, SystemError> {
        Self::start_of(system, binaries, parent, NODES).await
    }

    /// The same with another number of nodes.
    pub async fn start_of(
        system: System,
        binaries: &Binaries,
        parent: &Path,
        size: usize,
    ) -> Result<Self, SystemError> {
        let folder =
            tempfile::Builder::new().prefix(system.name()).tempdir_in(parent).map_err(SystemError::Folder)?;
        let specs = specs(folder.path(), size)?;
        let mut nodes = Vec::with_capacity(size);
        for spec in &specs {
            std::fs::create_dir(&spec.data).map_err(SystemError::Folder)?;
            let process = start_node(system, binaries, spec, &specs, folder.path())?;
            nodes.push(Node { spec: spec.clone(), process });
        }
        let mut cluster = Self { system, binaries: binaries.clone(), nodes, folder };
        let started = Instant::now();
        for node in cluster.indices() {
            cluster.serving_since(node, started).await?;
        }
        Ok(cluster)
    }

    pub fn indices(&self) -> impl Iterator<Item = NodeIndex> + use<> {
        (0..self.nodes.len()).map(NodeIndex)
    }

    /// Two different nodes.
    pub fn two_nodes(&self) -> (NodeIndex, NodeIndex) {
        (NodeIndex(0), NodeIndex(1))
    }

    /// Where its data and logs are, and whatever else shall go with it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// Where the nodes serve clients.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.spec.client).collect()
    }

    pub fn address(&self, node: NodeIndex) -> SocketAddr {
        self.nodes[node.0].spec.client
    }

    /// CPU time all nodes have used since they started.
    pub fn cpu_used(&self) -> Result<Duration, SystemError> {
        self.nodes.iter().map(|node| observed(node, cpu::used(node.process.pid()))).sum()
    }

    /// Resident memory of all nodes together.
    pub fn resident(&self) -> Result<Resident, SystemError> {
        let mut sum = Resident::default();
        for node in &self.nodes {
            sum += observed(node, memory::resident(node.process.pid()))?;
        }
        Ok(sum)
    }

    /// Resident memory of one node.
    pub fn resident_of(&self, node: NodeIndex) -> Result<Resident, SystemError> {
        let node = &self.nodes[node.0];
        observed(node, memory::resident(node.process.pid()))
    }

    /// The most memory one node had since its peak was reset.
    pub fn peak_of(&self, node: NodeIndex) -> Result<u64, SystemError> {
        let node = &self.nodes[node.0];
        observed(node, memory::peak(node.process.pid()))
    }

    pub fn reset_peak(&self, node: NodeIndex) -> Result<(), SystemError> {
        let node = &self.nodes[node.0];
        observed(node, memory::reset_peak(node.process.pid()))
    }

    /// The index of the last entry in the log, as the nodes know it.
    pub async fn log_entries(&self) -> Result<u64, SystemError> {
        let mut last = 0;
        for node in &self.nodes {
            let mut maintenance = MaintenanceClient::new(connection(node.spec.client));
            let status = maintenance.status(StatusRequest::default()).await;
            let status = status.map_err(|status| io::Error::other(status.message().to_owned()));
            last = last.max(observed(node, status)?.into_inner().raft_index);
        }
        Ok(last)
    }

    /// Disk space of all nodes together.
    pub fn disk_bytes(&self) -> Result<u64, SystemError> {
        self.nodes.iter().map(|node| observed(node, disk::allocated_bytes(&node.spec.data))).sum()
    }

    /// The node that says it leads.
    pub async fn leader(&self) -> Result<NodeIndex, SystemError> {
        let started = Instant::now();
        while started.elapsed() < START_LIMIT {
            for (index, node) in self.nodes.iter().enumerate() {
                let mut maintenance = MaintenanceClient::new(connection(node.spec.client));
                let Ok(status) = maintenance.status(StatusRequest::default()).await else { continue };
                let status = status.into_inner();
                let member = status.header.map_or(0, |header| header.member_id);
                if status.leader != 0 && status.leader == member {
                    return Ok(NodeIndex(index));
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(SystemError::NoLeader)
    }

    /// Ends a node at once, as a crash would.
    pub fn kill(&mut self, node: NodeIndex) -> Result<(), SystemError> {
        let node = &mut self.nodes[node.0];
        node.process.kill().map_err(|source| SystemError::Stop { name: node.spec.name.clone(), source })
    }

    /// Asks a node to end, as an upgrade would, and waits for it.
    pub fn terminate(&mut self, node: NodeIndex) -> Result<(), SystemError> {
        let node = &mut self.nodes[node.0];
        let outcome = node.process.terminate(STOP_PATIENCE);
        outcome.map_err(|source| SystemError::Stop { name: node.spec.name.clone(), source })
    }

    /// Starts a stopped node on the data it left, and tells how long it took until it served again.
    pub async fn restart(&mut self, node: NodeIndex) -> Result<Duration, SystemError> {
        let specs: Vec<NodeSpec> = self.nodes.iter().map(|node| node.spec.clone()).collect();
        let started = Instant::now();
        let folder = self.folder.path().to_owned();
        self.nodes[node.0].process =
            start_node(self.system, &self.binaries, &specs[node.0], &specs, &folder)?;
        self.serving_since(node, started).await
    }

    /// Waits until a node answers a linearizable read, and tells how long after `since` that was.
    async fn serving_since(&mut self, node: NodeIndex, since: Instant) -> Result<Duration, SystemError> {
        let connections = [connection(self.address(node))];
        let mut serving = std::pin::pin!(probe::first_success(since, START_LIMIT, &connections, probe::read));
        let node = &mut self.nodes[node.0];
        let name = || node.spec.name.clone();
        loop {
            tokio::select! {
                found = &mut serving => {
                    let log = node.process.last_words();
                    return found.ok_or_else(|| SystemError::NotServing { name: name(), seconds: START_LIMIT.as_secs(), log });
                }
                () = tokio::time::sleep(Duration::from_millis(100)) => {
                    let ended = node.process.ended();
                    if let Some(status) = ended.map_err(|source| SystemError::Observe { name: name(), source })? {
                        let log = node.process.last_words();
                        return Err(SystemError::Ended { name: name(), status: status.to_string(), log });
                    }
                }
            }
        }
    }
}

fn specs(folder: &Path, size: usize) -> Result<Vec<NodeSpec>, SystemError> {
    let ports = ports::free(size * 3)?;
    let specs = ports.chunks_exact(3).enumerate().map(|(index, ports)| NodeSpec {
        name: format!("n{}", index + 1),
        client: ports[0],
        peer: ports[1],
        http: ports[2],
        data: folder.join(format!("n{}", index + 1)),
    });
    Ok(specs.collect())
}

fn start_node(
    system: System,
    binaries: &Binaries,
    spec: &NodeSpec,
    cluster: &[NodeSpec],
    folder: &Path,
) -> Result<Process, SystemError> {
    let command = system.command(binaries, spec, cluster);
    let program = PathBuf::from(command.get_program());
    // Outside the data folder: a log is no part of what the store needs on disk.
    let log = folder.join(format!("{}.log", spec.name));
    Process::start(command, &log).map_err(|source| SystemError::Spawn { program, source })
}

fn observed<T>(node: &Node, outcome: std::io::Result<T>) -> Result<T, SystemError> {
    outcome.map_err(|source| SystemError::Observe { name: node.spec.name.clone(), source })
}
