//! Clusters of real nodes on loopback: each with a runtime of its own, so that it can be killed like a process.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use setpoint_consensus::log::DirFs;
use setpoint_consensus::{Config, Node, Peer, Role, Seams, Status, peer_listener};
use setpoint_types::{ClusterId, NodeId};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{ClientTlsConfig, ServerTlsConfig};

use super::{TestHost, TestNetwork, ToyMachine, bytes};

const PATIENCE: Duration = Duration::from_secs(20);

/// What a test changes before a node starts.
#[derive(Clone, Default)]
pub struct Options {
    pub configure: Option<fn(&mut Config)>,
    pub tls: Option<(ServerTlsConfig, ClientTlsConfig)>,
    pub cluster: Option<ClusterId>,
}

pub struct TestNode {
    pub id: NodeId,
    pub node: Node,
    pub machine: Arc<ToyMachine>,
    pub host: Arc<TestHost>,
    runtime: Option<Runtime>,
}

impl TestNode {
    pub fn name(&self) -> String {
        name(self.id)
    }

    pub fn status(&self) -> Status {
        self.node.status().borrow().clone()
    }

    /// Submits and waits until the command is applied here. Again while there is no leader or the command was refused,
    /// and after a while also if nothing is known of it; so it may be applied twice.
    pub async fn put(&self, text: impl Into<String>) {
        let command = bytes(text);
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if self.node.submit(command.clone()).is_err() {
                sleep(Duration::from_millis(20)).await;
                continue;
            }
            tokio::select! {
                () = self.machine.applied_command(&command) => return,
                () = self.refused(&command) => {}
                () = sleep(Duration::from_secs(3)) => {}
            }
        }
        panic!("{command:?} was not applied in time");
    }

    async fn refused(&self, command: &Bytes) {
        while !self.host.forget_refusal(command) {
            sleep(Duration::from_millis(5)).await;
        }
    }

    pub async fn applied(&self, command: &Bytes) {
        let applied = timeout(PATIENCE, self.machine.applied_command(command)).await;
        applied.unwrap_or_else(|_| panic!("{command:?} did not reach node {}", self.id));
    }
}

impl Drop for TestNode {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

pub fn name(id: NodeId) -> String {
    format!("node-{id}:1")
}

pub struct Cluster {
    pub network: Arc<TestNetwork>,
    pub nodes: BTreeMap<u64, TestNode>,
    options: Options,
    directory: TempDir,
}

impl Cluster {
    /// Nodes 1 to `count`, all voters, with a leader.
    pub async fn start(count: u64, options: Options) -> Self {
        let mut cluster = Self::empty(options);
        for id in 1..=count {
            cluster.start_node(id).await;
        }
        let member = |id| (NodeId(id), Peer { name: format!("n{id}"), address: name(NodeId(id)) });
        let members = (1..=count).map(member).collect();
        cluster.nodes[&1].node.initialize(members).await.expect("a fresh cluster can be initialized");
        cluster.leader().await;
        for node in cluster.nodes.values() {
            node.node.leader().await.expect("the node runs");
        }
        cluster
    }

    pub fn empty(options: Options) -> Self {
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
        let directory = tempfile::tempdir().expect("a temporary directory");
        Self { network: TestNetwork::new(), nodes: BTreeMap::new(), options, directory }
    }

    pub fn directory(&self, id: u64) -> PathBuf {
        self.directory.path().join(format!("node-{id}"))
    }

    /// Starts node `id`, or starts it again on what it left behind.
    pub async fn start_node(&mut self, id: u64) -> &TestNode {
        let node = self.build_node(id, self.options.clone()).await;
        self.nodes.insert(id, node);
        &self.nodes[&id]
    }

    pub async fn build_node(&self, id: u64, options: Options) -> TestNode {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        let directory = self.directory(id);
        let machine = Arc::new(ToyMachine::open(&directory.join("machine")));
        let host = Arc::new(TestHost::default());
        let mut seams = Seams::new(Arc::clone(&machine) as _, Arc::clone(&host) as _, Arc::clone(&host) as _);
        let (server_tls, client_tls) = options.tls.clone().unzip();
        seams.connector = self.network.connector(&name(NodeId(id)), client_tls);
        let mut config = Config::new(NodeId(id), options.cluster.unwrap_or(ClusterId(0xc1)), directory);
        config.timing.election_min = Duration::from_millis(700);
        config.timing.election_max = Duration::from_millis(1200);
        if let Some(configure) = options.configure {
            configure(&mut config);
        }
        let network = Arc::clone(&self.network);
        let started = runtime.spawn(async move {
            let node = Node::build(config, seams).await.expect("the node can be built");
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has free ports");
            network.listen(&name(NodeId(id)), listener.local_addr().expect("a bound socket has an address"));
            let mut server = peer_listener();
            if let Some(tls) = server_tls {
                server = server.tls_config(tls).expect("the certificate is valid");
            }
            let service = node.peer_service();
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            tokio::spawn(server.add_service(service).serve_with_incoming(incoming));
            node.run();
            node
        });
        let node = started.await.expect("starting does not panic");
        TestNode { id: NodeId(id), node, machine, host, runtime: Some(runtime) }
    }

    pub fn node(&self, id: u64) -> &TestNode {
        &self.nodes[&id]
    }

    /// Ends a node as SIGKILL would: nothing is handed over, flushed or said. It may be started again.
    pub async fn kill(&mut self, id: u64) {
        let mut node = self.nodes.remove(&id).expect("the node runs");
        let runtime = node.runtime.take().expect("it was not killed before");
        let stopped = tokio::task::spawn_blocking(move || runtime.shutdown_timeout(Duration::from_secs(5)));
        stopped.await.expect("stopping does not panic");
        drop(node);
        // The log's thread ends by itself a moment later, and its lock with it.
        let log = self.directory(id).join("raft");
        eventually("the log is free", || DirFs::open(&log).is_ok()).await;
    }

    /// Deletes all that a killed node has stored.
    pub fn wipe(&self, id: u64) {
        std::fs::remove_dir_all(self.directory(id)).expect("the node had a directory");
    }

    /// The one node that leads and that a majority of the running nodes agrees on.
    pub async fn leader(&self) -> &TestNode {
        let started = Instant::now();
        loop {
            let statuses: Vec<Status> = self.nodes.values().map(TestNode::status).collect();
            let term = statuses.iter().map(|status| status.term).max().unwrap_or(0);
            let leader = statuses.iter().find(|status| status.role == Role::Leader && status.term == term);
            if let Some(leader) = leader {
                let agreeing = statuses.iter().filter(|status| status.leader == Some(leader.id)).count();
                let leader = &self.nodes[&leader.id.0];
                if agreeing * 2 > statuses.len() && leader.node.leader().now_or_never().is_some() {
                    return leader;
                }
            }
            assert!(started.elapsed() < PATIENCE, "no leader: {statuses:#?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    pub fn followers<'a>(&'a self, leader: &'a TestNode) -> impl Iterator<Item = &'a TestNode> {
        self.nodes.values().filter(move |node| node.id != leader.id)
    }

    /// Waits until every node has applied `command`, and checks that all of them agree on the whole history.
    pub async fn agree_on(&self, command: &Bytes) {
        for node in self.nodes.values() {
            node.applied(command).await;
        }
        let histories: Vec<Vec<Bytes>> = self.nodes.values().map(|node| node.machine.commands()).collect();
        for pair in histories.windows(2) {
            let common = pair[0].len().min(pair[1].len());
            assert_eq!(pair[0][..common], pair[1][..common], "two nodes disagree");
        }
    }
}

/// Waits until `condition` holds; fails the test if it takes too long.
pub async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "it did not happen in time: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}
