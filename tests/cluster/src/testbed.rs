//! A cluster with everything a test does to it: break and mend, work and check.

use std::time::{Duration, Instant};

use setpoint_etcd_tests::cluster::{Cluster, ClusterConfig};
use setpoint_etcd_tests::process::http_status;

use crate::check::{Finding, check, check_watch};
use crate::client::Client;
use crate::dump::dump;
use crate::follow::Follower;
use crate::history::{Action, History, Op, Outcome, Recorder};
use crate::load::{Load, LoadConfig, perform};
use crate::mesh::Mesh;
use crate::model::Change;

/// How long the cluster may take to become what a test waits for. Generous: the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

pub struct Testbed {
    pub cluster: Cluster,
    pub mesh: Mesh,
    pub clients: Vec<Client>,
    pub recorder: Recorder,
    pub seed: u64,
    name: &'static str,
    barriers: u64,
}

/// What to start beside the defaults.
#[derive(Clone, Debug)]
pub struct Setup {
    pub nodes: usize,
    pub arguments: Vec<String>,
    pub in_memory: bool,
}

impl Setup {
    pub fn of(nodes: usize) -> Self {
        Self { nodes, arguments: Vec::new(), in_memory: true }
    }

    /// Three nodes that are slow to suspect their leader: for tests in which every single answer counts, on machines
    /// that are busy with something else.
    pub fn calm() -> Self {
        Self::of(3).with(&["--election-timeout", "3s"])
    }

    pub fn with(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }
}

impl Testbed {
    /// Three nodes, ready. `name` is the test's, for the line that tells how to repeat it.
    pub async fn start(name: &'static str) -> Self {
        Self::start_with(name, Setup::of(3)).await
    }

    pub async fn start_with(name: &'static str, setup: Setup) -> Self {
        let mut bed = Self::prepare(name, setup).await;
        for node in 0..bed.nodes() {
            bed.start_node(node);
        }
        bed.cluster.ready().await.expect("the cluster gets ready");
        bed
    }

    /// The same, before any node is started.
    pub async fn prepare(name: &'static str, setup: Setup) -> Self {
        let seed = seed();
        eprintln!(
            "seed {seed}; to repeat: SETPOINT_SEED={seed} cargo nextest run -p setpoint-cluster-tests {name}"
        );
        let mut mesh = Mesh::bind(setup.nodes).await.expect("free ports for the proxies");
        let config = ClusterConfig {
            nodes: setup.nodes,
            arguments: setup.arguments,
            in_memory: setup.in_memory,
            peer_fronts: mesh.fronts(),
        };
        let cluster = Cluster::prepare(config).expect("the cluster is prepared");
        let peers: Vec<String> = cluster.nodes().iter().map(|node| node.peer.clone()).collect();
        mesh.serve(&peers);
        let clients = cluster.nodes().iter().map(|node| Client::new(&node.client)).collect();
        Self { cluster, mesh, clients, recorder: Recorder::default(), seed, name, barriers: 0 }
    }

    pub fn nodes(&self) -> usize {
        self.clients.len()
    }

    pub fn addresses(&self) -> Vec<String> {
        self.cluster.nodes().iter().map(|node| node.client.clone()).collect()
    }

    pub fn load(&self, config: &LoadConfig) -> Load {
        Load::start(&self.addresses(), &self.recorder, self.seed, config)
    }

    pub fn follow(&self) -> Vec<Follower> {
        let start = |node| Follower::start(&self.addresses(), node, &self.recorder, self.seed);
        (0..self.nodes()).map(start).collect()
    }

    pub fn kill(&mut self, node: usize) {
        self.cluster.kill(node);
        self.note_pids();
    }

    /// Starts a node without waiting for it.
    pub fn start_node(&mut self, node: usize) {
        self.cluster.start_node(node).expect("the program starts");
        self.note_pids();
    }

    pub async fn restart(&mut self, node: usize) {
        self.start_node(node);
        self.ready(node).await;
    }

    fn note_pids(&self) {
        self.mesh.note_pids(self.cluster.nodes().iter().map(|node| node.pid()).collect());
    }

    /// Waits until the node answers linearizable reads.
    pub async fn ready(&mut self, node: usize) {
        let deadline = Instant::now() + PATIENCE;
        let address = self.cluster.nodes()[node].http.clone();
        while http_status(&address, "/readyz").await != Some(200) {
            assert!(
                self.cluster.is_running(node),
                "node {} ended\n{}",
                node + 1,
                self.cluster.log_tail(node, 20)
            );
            assert!(Instant::now() < deadline, "node {} does not get ready", node + 1);
            tokio::time::sleep(POLL).await;
        }
    }

    /// The leader that most nodes agree on, and its term.
    pub async fn leader(&self) -> (usize, u64) {
        self.leader_among(&(0..self.nodes()).collect::<Vec<_>>()).await
    }

    /// The same, asking only some nodes: all of them have to agree, on one of them.
    pub async fn leader_among(&self, nodes: &[usize]) -> (usize, u64) {
        let agreed = async {
            loop {
                if let Some(leader) = self.agreed(nodes).await {
                    return leader;
                }
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(PATIENCE, agreed).await.expect("a leader is elected")
    }

    async fn agreed(&self, nodes: &[usize]) -> Option<(usize, u64)> {
        let mut said = Vec::new();
        for node in nodes {
            let status = self.clients[*node].status().await.ok()?;
            said.push((usize::try_from(status.leader).ok()?.checked_sub(1)?, status.raft_term));
        }
        let first = *said.first()?;
        (said.iter().all(|other| *other == first) && nodes.contains(&first.0)).then_some(first)
    }

    /// Some node that does not lead.
    pub async fn follower(&self) -> usize {
        let (leader, _) = self.leader().await;
        (leader + 1) % self.nodes()
    }

    /// Waits until the condition holds.
    pub async fn until<F: Future<Output = bool>>(&self, what: &str, mut holds: impl FnMut() -> F) {
        let deadline = Instant::now() + PATIENCE;
        while !holds().await {
            assert!(Instant::now() < deadline, "{what}: did not happen in time");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until so many writes more than now were acknowledged.
    pub async fn progress(&self, writes: usize) {
        let goal = self.recorder.acknowledged() + writes;
        self.until("the load goes on", || async { self.recorder.acknowledged() >= goal }).await;
    }

    /// A recorded write through a node, tried until it is acknowledged.
    pub async fn barrier_write(&mut self, node: usize) -> i64 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.barriers += 1;
            let value = format!("{:x}-barrier-{}", self.seed, self.barriers);
            let action = Action::Put { key: format!("barrier/{node}"), value };
            let call = self.recorder.now();
            let outcome = perform(&self.clients[node], &action).await;
            let written = if let Outcome::Written { revision, .. } = outcome { Some(revision) } else { None };
            assert!(
                written.is_some() || Instant::now() < deadline,
                "node {} takes no writes: {outcome:?}",
                node + 1
            );
            self.recorder.op(Op {
                client: usize::MAX,
                node,
                call,
                ret: self.recorder.now(),
                action,
                outcome,
            });
            if let Some(revision) = written {
                return revision;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Mends everything and checks the whole history: logs, answers, watches, hashes.
    pub async fn verify(&mut self, followers: Vec<Follower>) -> History {
        self.mesh.heal();
        for node in 0..self.nodes() {
            if !self.cluster.is_running(node) {
                self.start_node(node);
            }
        }
        for node in 0..self.nodes() {
            self.ready(node).await;
        }
        let mut last = 0;
        for node in 0..self.nodes() {
            last = self.barrier_write(node).await;
        }
        let mut logs: Vec<Vec<Change>> = Vec::new();
        for client in &self.clients {
            logs.push(dump(client, 1, last).await.expect("the log can be read"));
        }
        let mut seen = Vec::new();
        for follower in followers {
            seen.push(follower.finish(last).await);
        }
        let history = self.recorder.history();
        eprintln!("{}: {}", self.name, history.summary());
        report(&check(&history, &logs));
        for (place, batches) in seen.iter().enumerate() {
            let problems = check_watch(1, batches, &logs[0]);
            assert!(problems.is_empty(), "watcher {}: {problems:#?}", place + 1);
        }
        self.hashes_agree(last).await;
        self.no_panics();
        history
    }

    /// Every node has the same content up to a revision, or up to the newest if that is 0.
    pub async fn hashes_agree(&self, mut revision: i64) {
        let mut hashes = Vec::new();
        for client in &self.clients {
            let newest = patiently(|| client.revision()).await;
            revision = if revision == 0 { newest } else { revision };
        }
        for client in &self.clients {
            hashes.push(client.hash(revision).await.expect("a hash"));
        }
        assert!(hashes.iter().all(|hash| *hash == hashes[0]), "the nodes' hashes differ: {hashes:?}");
    }

    pub fn log(&self, node: usize) -> String {
        let bytes = std::fs::read(&self.cluster.nodes()[node].log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// No node has ever panicked.
    pub fn no_panics(&self) {
        for node in 0..self.cluster.nodes().len() {
            let log = self.log(node);
            if let Some(at) = log.find("panicked") {
                let start = log[..at].rfind('\n').map_or(0, |line| line + 1);
                panic!(
                    "node {} panicked: {}",
                    node + 1,
                    log[start..].lines().take(4).collect::<Vec<_>>().join("\n")
                );
            }
        }
    }
}

/// Asks until there is an answer: an election may be under way.
pub async fn patiently<T, F: Future<Output = Result<T, tonic::Status>>>(mut ask: impl FnMut() -> F) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(status) => assert!(Instant::now() < deadline, "no answer: {status:?}"),
        }
        tokio::time::sleep(POLL).await;
    }
}

fn report(findings: &[Finding]) {
    let shown: Vec<String> = findings
        .iter()
        .take(10)
        .map(|finding| format!("{:?}: {}", finding.violation, finding.detail))
        .collect();
    assert!(findings.is_empty(), "{} violations, first:\n{}", findings.len(), shown.join("\n"));
}

impl Drop for Testbed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { seed, name, .. } = self;
            eprintln!("to repeat: SETPOINT_SEED={seed} cargo nextest run -p setpoint-cluster-tests {name}");
        }
    }
}

/// From `SETPOINT_SEED`, or new for this process.
pub fn seed() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "printed, so that the run can be repeated")]
    let fresh = || u64::from(rand::random::<u32>());
    std::env::var("SETPOINT_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(fresh)
}
