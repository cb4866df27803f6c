//! A cluster of real `setpointd` processes on loopback, for any test that wants to see the server as its users do.
//!
//! ```ignore
//! let mut cluster = Cluster::start(3).await?;
//! let endpoints = cluster.endpoints();
//! cluster.kill(0);            // kill -9
//! cluster.restart(0).await?;  // on its old data and ports
//! ```
//! Everything ends when the cluster is dropped: processes are killed and their directory is removed. If the test is
//! panicking by then, the end of every log is printed first; with `SETPOINT_KEEP=1` the directory stays.
//!
//! Not here: what is asked of the cluster. Clients connect to [`Cluster::endpoints`].

use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::error::HarnessError;
use crate::ports::free_ports;
use crate::process::{Server, ServerProcess, TAIL_LINES, tail};

/// How to start a cluster. `ClusterConfig::default()` is three nodes without further arguments.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    pub nodes: usize,
    /// Passed to every node after the arguments that name it and its addresses.
    pub arguments: Vec<String>,
    /// Data lives in memory, where syncing costs nothing: for tests of behaviour, not of durability.
    pub in_memory: bool,
    /// The peer address each node is known by, if not its own: that of a proxy in front of it.
    pub peer_fronts: Vec<String>,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self { nodes: 3, arguments: Vec::new(), in_memory: false, peer_fronts: Vec::new() }
    }
}

/// One node: its addresses stay the same for the life of the cluster, its process comes and goes.
#[derive(Debug)]
pub struct Node {
    pub name: String,
    pub client: String,
    pub peer: String,
    pub http: String,
    initial_cluster: String,
    /// Passed after those for every node.
    pub arguments: Vec<String>,
    /// What it runs, if not what the others do.
    pub program: Option<PathBuf>,
    /// Set for the node's process only.
    pub environment: Vec<(String, String)>,
    /// Where its data is.
    pub directory: PathBuf,
    pub log: PathBuf,
    process: Option<ServerProcess>,
}

impl Node {
    /// The id of its process, if that was started.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(ServerProcess::pid)
    }
}

#[derive(Debug)]
pub struct Cluster {
    program: PathBuf,
    nodes: Vec<Node>,
    arguments: Vec<String>,
    // `None` only while it is being dropped. Declared after the nodes, whose processes write into it.
    directory: Option<TempDir>,
}

impl Cluster {
    /// A cluster of that many nodes, ready to serve.
    pub async fn start(nodes: usize) -> Result<Self, HarnessError> {
        Self::start_with(ClusterConfig { nodes, ..ClusterConfig::default() }).await
    }

    pub async fn start_with(config: ClusterConfig) -> Result<Self, HarnessError> {
        let mut cluster = Self::prepare(config)?;
        cluster.launch().await?;
        Ok(cluster)
    }

    /// The nodes with their addresses and directories, none of them started.
    pub fn prepare(config: ClusterConfig) -> Result<Self, HarnessError> {
        let program = setpointd()?;
        let directory = if config.in_memory { scratch_directory()? } else { temporary_directory()? };
        let ports = free_ports(3 * config.nodes)?;
        let addresses: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let names: Vec<String> = (1..=config.nodes).map(|number| format!("n{number}")).collect();
        let own = addresses.chunks(3).map(|set| set[1].clone());
        let known: Vec<String> =
            if config.peer_fronts.is_empty() { own.collect() } else { config.peer_fronts };
        let initial: Vec<String> =
            names.iter().zip(&known).map(|(name, peer)| format!("{name}={peer}")).collect();
        let mut cluster =
            Self { program, nodes: Vec::new(), arguments: config.arguments, directory: Some(directory) };
        for (name, set) in names.iter().zip(addresses.chunks(3)) {
            cluster.place(name, set, initial.join(","), Vec::new());
        }
        Ok(cluster)
    }

    /// Starts every node and waits until all of them serve.
    pub async fn launch(&mut self) -> Result<(), HarnessError> {
        for index in 0..self.nodes.len() {
            self.spawn(index)?;
        }
        self.ready().await
    }

    /// Adds a node that is not part of the initial cluster: it is made known to the others by a member request, at
    /// the peer address [`Node::peer`] of the returned index, before [`Cluster::restart`] starts it. `arguments` tell
    /// it to join.
    pub fn add_node(&mut self, arguments: Vec<String>) -> Result<usize, HarnessError> {
        let addresses: Vec<String> = free_ports(3)?.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let index = self.nodes.len();
        let name = format!("n{}", index + 1);
        let known = self.nodes.iter().map(|node| format!("{}={}", node.name, node.peer));
        let initial: Vec<String> = known.chain([format!("{name}={}", addresses[1])]).collect();
        self.place(&name, &addresses, initial.join(","), arguments);
        Ok(index)
    }

    fn place(&mut self, name: &str, addresses: &[String], initial_cluster: String, arguments: Vec<String>) {
        let root = self.root();
        let node = Node {
            name: name.to_owned(),
            client: addresses[0].clone(),
            peer: addresses[1].clone(),
            http: addresses[2].clone(),
            initial_cluster,
            arguments,
            program: None,
            environment: Vec::new(),
            directory: root.join(name),
            log: root.join(format!("{name}.log")),
            process: None,
        };
        self.nodes.push(node);
    }

    fn spawn(&mut self, index: usize) -> Result<(), HarnessError> {
        let node = &mut self.nodes[index];
        let mut arguments: Vec<String> = [
            ("--name", node.name.clone()),
            ("--data-dir", node.directory.display().to_string()),
            ("--listen-client", node.client.clone()),
            ("--listen-peer", node.peer.clone()),
            ("--listen-http", node.http.clone()),
            ("--initial-cluster", node.initial_cluster.clone()),
        ]
        .into_iter()
        // A node that joins is told whom to ask instead.
        .filter(|(flag, _)| {
            *flag != "--initial-cluster" || !node.arguments.iter().any(|other| other == "--join")
        })
        .flat_map(|(flag, value)| [flag.to_owned(), value])
        .collect();
        arguments.extend_from_slice(&self.arguments);
        arguments.extend_from_slice(&node.arguments);
        let environment = &node.environment;
        let program = node.program.as_ref().unwrap_or(&self.program);
        let process = ServerProcess::spawn_with(&node.name, program, &arguments, environment, &node.log)?;
        node.process = Some(process);
        Ok(())
    }

    /// Waits until every running node serves.
    pub async fn ready(&mut self) -> Result<(), HarnessError> {
        for node in &mut self.nodes {
            if let Some(process) = &mut node.process {
                process.ready(&node.http, "/readyz").await?;
            }
        }
        Ok(())
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub fn node_mut(&mut self, index: usize) -> &mut Node {
        &mut self.nodes[index]
    }

    /// Waits for a node's process to end by itself; `None` if it has not within the time a stop may take.
    pub async fn ended(&mut self, index: usize) -> Option<ExitStatus> {
        self.nodes[index].process.as_mut()?.ended().await
    }

    /// The client URL of every node, running or not.
    pub fn endpoints(&self) -> Vec<String> {
        self.nodes.iter().map(|node| format!("http://{}", node.client)).collect()
    }

    pub fn is_running(&mut self, index: usize) -> bool {
        self.nodes[index].process.as_mut().is_some_and(ServerProcess::is_running)
    }

    /// Ends a node's process without warning, as `kill -9` does.
    pub fn kill(&mut self, index: usize) {
        self.nodes[index].process = None;
    }

    /// Asks a node to shut down and waits for it. `None` if it was not running or had to be killed.
    pub async fn stop(&mut self, index: usize) -> Result<Option<ExitStatus>, HarnessError> {
        match self.nodes[index].process.take() {
            Some(mut process) => process.stop().await,
            None => Ok(None),
        }
    }

    /// Halts a node's process, as a long garbage collection or a frozen virtual machine would.
    pub fn pause(&self, index: usize) -> Result<(), HarnessError> {
        self.signal(index, Signal::STOP)
    }

    pub fn resume(&self, index: usize) -> Result<(), HarnessError> {
        self.signal(index, Signal::CONT)
    }

    fn signal(&self, index: usize, signal: Signal) -> Result<(), HarnessError> {
        self.nodes[index].process.as_ref().map_or(Ok(()), |process| process.signal(signal))
    }

    /// Starts a node on its old data and addresses, killing it first if it runs, and waits until it serves.
    pub async fn restart(&mut self, index: usize) -> Result<(), HarnessError> {
        self.start_node(index)?;
        let node = &mut self.nodes[index];
        match &mut node.process {
            Some(process) => process.ready(&node.http, "/readyz").await,
            None => Ok(()),
        }
    }

    /// The same without waiting: for nodes that cannot serve yet, like one of three alone.
    pub fn start_node(&mut self, index: usize) -> Result<(), HarnessError> {
        self.kill(index);
        self.spawn(index)
    }

    /// The end of a node's log.
    pub fn log_tail(&self, index: usize, lines: usize) -> String {
        tail(&self.nodes[index].log, lines)
    }

    /// Where the nodes' data and logs are.
    pub fn root(&self) -> &Path {
        self.directory.as_ref().map_or(Path::new(""), TempDir::path)
    }
}

impl Server for Cluster {
    fn fallen(&mut self) -> Option<String> {
        let mut started = self.nodes.iter_mut().filter_map(|node| Some((&node.name, node.process.as_mut()?)));
        started.find_map(|(name, process)| (!process.is_running()).then(|| name.clone()))
    }

    fn log_tails(&self) -> String {
        let tails =
            self.nodes.iter().map(|node| format!("--- {} ---\n{}\n", node.name, tail(&node.log, TAIL_LINES)));
        tails.collect()
    }
}

impl Drop for Cluster {
    #[expect(clippy::print_stderr, reason = "the test runner shows it with the failure")]
    fn drop(&mut self) {
        for index in 0..self.nodes.len() {
            self.kill(index);
        }
        if std::thread::panicking() {
            eprintln!("{}", self.log_tails());
        }
        if std::env::var_os("SETPOINT_KEEP").is_some()
            && let Some(directory) = self.directory.take()
        {
            eprintln!("kept {}", directory.keep().display());
        }
    }
}

/// The server under test: `SETPOINTD`, or the one built beside this test.
pub fn setpointd() -> Result<PathBuf, HarnessError> {
    let path = match std::env::var_os("SETPOINTD") {
        Some(path) => PathBuf::from(path),
        None => beside_this_program().join("setpointd"),
    };
    if path.is_file() { Ok(path) } else { Err(HarnessError::NoSetpointd { looked_at: path }) }
}

/// `target/<profile>`: tests run in `deps` below it, programs in it.
fn beside_this_program() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().map(Path::to_owned).unwrap_or_default();
    if folder.ends_with("deps") { folder.parent().map(Path::to_owned).unwrap_or_default() } else { folder }
}

/// A directory on a real disk.
fn temporary_directory() -> Result<TempDir, HarnessError> {
    tempfile::Builder::new().prefix("setpoint-").tempdir().map_err(|source| HarnessError::TempDir { source })
}

/// A directory in memory where the system has one, else on disk.
pub fn scratch_directory() -> Result<TempDir, HarnessError> {
    let in_memory = tempfile::Builder::new().prefix("setpoint-").tempdir_in("/dev/shm");
    in_memory.or_else(|_| temporary_directory())
}
