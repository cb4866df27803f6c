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
    initial_cluster: String,
    initial_state: &'static str,
    process: Option<ServerProcess>,
    log: PathBuf,
}

/// A running etcd of one or more members, started from nothing.
#[derive(Debug)]
pub struct EtcdPeer {
    binaries: EtcdBinaries,
    /// Passed to every member after the arguments that name it and its addresses.
    arguments: Vec<String>,
    members: Vec<Member>,
    // Dropped last: the processes above write into it.
    directory: TempDir,
}

impl EtcdPeer {
    pub async fn start(binaries: &EtcdBinaries, members: usize) -> Result<Self, HarnessError> {
        Self::start_with(binaries, members, Vec::new()).await
    }

    pub async fn start_with(
        binaries: &EtcdBinaries,
        members: usize,
        arguments: Vec<String>,
    ) -> Result<Self, HarnessError> {
        let directory = scratch_directory()?;
        let mut etcd = Self { binaries: binaries.clone(), arguments, members: Vec::new(), directory };
        let addresses: Vec<String> =
            free_ports(2 * members)?.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        for set in addresses.chunks(2) {
            etcd.place(set, "new");
        }
        let initial_cluster = etcd.cluster_list();
        for member in &mut etcd.members {
            member.initial_cluster.clone_from(&initial_cluster);
        }
        for index in 0..members {
            etcd.start_member(index)?;
        }
        etcd.ready().await?;
        Ok(etcd)
    }

    /// Prepares a member that is not part of the initial cluster: it is made known to the others by a member request, at
    /// the peer address of the returned index, before [`EtcdPeer::start_member`] starts it.
    pub fn add_member(&mut self) -> Result<usize, HarnessError> {
        let addresses: Vec<String> = free_ports(2)?.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        self.place(&addresses, "existing");
        let initial_cluster = self.cluster_list();
        let index = self.members.len() - 1;
        self.members[index].initial_cluster = initial_cluster;
        Ok(index)
    }

    fn place(&mut self, addresses: &[String], initial_state: &'static str) {
        let name = format!("n{}", self.members.len() + 1);
        let log = self.directory.path().join(format!("{name}.log"));
        let (client, peer) = (addresses[0].clone(), addresses[1].clone());
        let member =
            Member { name, client, peer, initial_cluster: String::new(), initial_state, process: None, log };
        self.members.push(member);
    }

    fn cluster_list(&self) -> String {
        let members = self.members.iter().map(|member| format!("{}=http://{}", member.name, member.peer));
        members.collect::<Vec<_>>().join(",")
    }

    /// Starts a member's process on its data and addresses, killing it first if it runs. Does not wait.
    pub fn start_member(&mut self, index: usize) -> Result<(), HarnessError> {
        self.kill(index);
        let member = &mut self.members[index];
        let Member { name, client, peer, initial_cluster, initial_state, .. } = &*member;
        let mut arguments = vec![
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
        arguments.extend_from_slice(&self.arguments);
        let process = ServerProcess::spawn(name, &self.binaries.etcd(), &arguments, &member.log)?;
        member.process = Some(process);
        Ok(())
    }

    /// Ends a member's process without warning.
    pub fn kill(&mut self, index: usize) {
        self.members[index].process = None;
    }

    /// Waits until every running member serves.
    pub async fn ready(&mut self) -> Result<(), HarnessError> {
        for member in &mut self.members {
            if let Some(process) = &mut member.process {
                process.ready(&member.client, "/health").await?;
            }
        }
        Ok(())
    }

    /// The client URL of every member, running or not.
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| format!("http://{}", member.client)).collect()
    }

    /// The address other members reach this one at.
    pub fn peer_address(&self, index: usize) -> &str {
        &self.members[index].peer
    }
}

impl Server for EtcdPeer {
    fn fallen(&mut self) -> Option<String> {
        let mut started =
            self.members.iter_mut().filter_map(|member| Some((&member.name, member.process.as_mut()?)));
        started.find_map(|(name, process)| (!process.is_running()).then(|| name.clone()))
    }

    fn log_tails(&self) -> String {
        let tails = self
            .members
            .iter()
            .map(|member| format!("--- {} ---\n{}\n", member.name, tail(&member.log, TAIL_LINES)));
        tails.collect()
    }
}
