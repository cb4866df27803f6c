//! A real etcd: finding or fetching its programs, and running it as one node or as a cluster.
//!
//! `scripts/etcd-peer` does the fetching. Data is not synced to disk: these servers live as long as a test.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::cluster::scratch_directory;
use crate::error::HarnessError;
use crate::ports::free_ports;
use crate::process::{Server, ServerProcess, TAIL_LINES, tail};

/// Where etcd's programs are.
#[derive(Clone, Debug)]
pub struct EtcdBinaries {
    folder: PathBuf,
}

impl EtcdBinaries {
    /// Fetches etcd if need be. The error says why there is none.
    pub fn find() -> Result<Self, HarnessError> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/etcd-peer");
        let output = Command::new(&script).output();
        let output = output.map_err(|source| HarnessError::Spawn { program: script, source })?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            let reason = errors.lines().last().unwrap_or("scripts/etcd-peer failed").to_owned();
            return Err(HarnessError::NoEtcd { reason });
        }
        let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        Ok(Self { folder })
    }

    pub fn etcd(&self) -> PathBuf {
        self.folder.join("etcd")
    }

    pub fn etcdctl(&self) -> PathBuf {
        self.folder.join("etcdctl")
    }

    /// The version, like `3.5.30`.
    pub fn version(&self) -> String {
        let output = Command::new(self.etcd()).arg("--version").output();
        let text =
            output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let first = text.lines().next().unwrap_or_default();
        first.rsplit(' ').next().unwrap_or_default().to_owned()
    }
}

#[derive(Debug)]
struct Member {
    name: String,
    client: String,
    peer: String,
    process: ServerProcess,
    log: PathBuf,
}

/// A running etcd of one or more members, started from nothing.
#[derive(Debug)]
pub struct EtcdPeer {
    binaries: EtcdBinaries,
    members: Vec<Member>,
    // Dropped last: the processes above write into it.
    directory: TempDir,
}

impl EtcdPeer {
    pub async fn start(binaries: &EtcdBinaries, members: usize) -> Result<Self, HarnessError> {
        let directory = scratch_directory()?;
        let mut peer = Self { binaries: binaries.clone(), members: Vec::new(), directory };
        let ports = free_ports(2 * members)?;
        let (clients, peers) = ports.split_at(members);
        let names: Vec<String> = (1..=members).map(|number| format!("etcd{number}")).collect();
        let initial: Vec<String> =
            names.iter().zip(peers).map(|(name, port)| format!("{name}=http://127.0.0.1:{port}")).collect();
        for (index, name) in names.iter().enumerate() {
            let addresses = (format!("127.0.0.1:{}", clients[index]), format!("127.0.0.1:{}", peers[index]));
            peer.spawn(name, addresses, &initial.join(","), "new")?;
        }
        for member in &mut peer.members {
            member.process.ready(&member.client, "/health").await?;
        }
        Ok(peer)
    }

    /// Starts a member that was added to the running cluster before.
    pub async fn join(&mut self, name: &str, client: String, peer: String) -> Result<(), HarnessError> {
        let known = self.members.iter().map(|member| format!("{}=http://{}", member.name, member.peer));
        let initial: Vec<String> = known.chain([format!("{name}=http://{peer}")]).collect();
        self.spawn(name, (client, peer), &initial.join(","), "existing")
    }

    fn spawn(
        &mut self,
        name: &str,
        (client, peer): (String, String),
        initial_cluster: &str,
        initial_state: &str,
    ) -> Result<(), HarnessError> {
        let log = self.directory.path().join(format!("{name}.log"));
        let arguments = [
            format!("--name={name}"),
            format!("--data-dir={}", self.directory.path().join(name).display()),
            format!("--listen-client-urls=http://{client}"),
            format!("--advertise-client-urls=http://{client}"),
            format!("--listen-peer-urls=http://{peer}"),
            format!("--initial-advertise-peer-urls=http://{peer}"),
            format!("--initial-cluster={initial_cluster}"),
            format!("--initial-cluster-state={initial_state}"),
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        let process = ServerProcess::spawn(name, &self.binaries.etcd(), &arguments, &log)?;
        self.members.push(Member { name: name.to_owned(), client, peer, process, log });
        Ok(())
    }

    /// The client address of every member, like `127.0.0.1:2379`.
    pub fn client_addresses(&self) -> Vec<String> {
        self.members.iter().map(|member| member.client.clone()).collect()
    }

    /// The same as URLs.
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| format!("http://{}", member.client)).collect()
    }
}

impl Server for EtcdPeer {
    fn fallen(&mut self) -> Option<String> {
        let mut members = self.members.iter_mut();
        members.find_map(|member| (!member.process.is_running()).then(|| member.name.clone()))
    }

    fn log_tails(&self) -> String {
        let tails = self
            .members
            .iter()
            .map(|member| format!("--- {} ---\n{}\n", member.name, tail(&member.log, TAIL_LINES)));
        tails.collect()
    }
}
