//! A test bed: the server's services over TCP, an agent as a process, and what they leave, which goes when the bed does.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use setpoint_agent::runtime::process::cgroup::{Hierarchy, Limits};
use setpoint_agent::runtime::process::run_folder::{Claim, RunFolder};
use setpoint_client::{
    Client, Connector, DeleteOptions, ExecEvent, ExecInput, ExecOutput, LogQuery, Typed, Wire, WireError,
    WriteOptions,
};
use setpoint_testkit::World;
use setpoint_types::kinds::{
    Binding, BindingSpec, BindingState, Node, Replica, ReplicaSpec, ReplicaStatus, ReplicaTemplate, Stage,
};
use setpoint_types::object::find_condition;
use setpoint_types::{Epoch, Revision, Uid};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tonic::body::Body;
use tower::ServiceExt;

const PATIENCE: Duration = Duration::from_secs(60);
const NODE: &str = "n1";
const HELD_BACK: &str = "test/held";

/// Everything a test needs.
pub struct Bed {
    world: World,
    client: Client,
    folder: tempfile::TempDir,
    parent: String,
    /// Of the engine; empty: no containers.
    socket: String,
    /// How long what an ended replica left is kept, in seconds.
    pub keep_ended: u32,
    server: SocketAddr,
    cut: Arc<AtomicBool>,
    agent: Option<Child>,
    /// Agents that were started so far.
    agents: usize,
}

impl Bed {
    pub async fn new(name: &str) -> Self {
        Self::with(name, &format!("setpoint-test-{}-{name}", std::process::id()), "").await
    }

    /// With the control group of another one, or with containers.
    pub async fn with(name: &str, parent: &str, socket: &str) -> Self {
        // Other ids in each bed: beds of several tests may share an engine, and containers are called after them.
        let mut hasher = DefaultHasher::new();
        (name, std::process::id()).hash(&mut hasher);
        let world = World::seeded(hasher.finish() >> 16);
        let cut = Arc::new(AtomicBool::new(false));
        let wire = world.connect(&"world".parse().expect("a host")).expect("a wire");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let server = listener.local_addr().expect("an address");
        tokio::spawn(serve(listener, wire, cut.clone()));
        let folder = tempfile::Builder::new().prefix(name).tempdir().expect("a folder");
        let (client, parent, socket) = (world.client(), parent.to_owned(), socket.to_owned());
        Self { client, world, folder, parent, socket, keep_ended: 3600, server, cut, agent: None, agents: 0 }
    }

    pub fn start_agent(&mut self, failpoints: &str) {
        let log =
            std::fs::File::options().create(true).append(true).open(self.folder.path().join("agent.log"));
        let mut agent = Command::new(env!("CARGO_BIN_EXE_setpoint-agent"));
        agent.args(["--name", NODE, "--zone", "a", "--lease-ttl-seconds", "6"]);
        agent.args(["--docker-socket", &self.socket, "--keep-ended-seconds", &self.keep_ended.to_string()]);
        agent.args(["--listen-http", "127.0.0.1:0", "--endpoints", &self.server.to_string()]);
        agent.args(["--capacity", "cpu=4,memory=4Gi", "--cgroup-parent", &self.parent]);
        agent.arg("--state-dir").arg(self.state());
        if !failpoints.is_empty() {
            agent.env("SETPOINT_FAILPOINTS", failpoints);
        }
        agent.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.expect("a log"));
        self.agent = Some(agent.spawn().expect("an agent"));
        self.agents += 1;
    }

    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// Where processes write that they were started.
    pub fn starts(&self) -> PathBuf {
        self.folder.path().join("starts")
    }

    pub fn started(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.starts()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// All starts, once there are so many. A process serves before it has done anything.
    pub async fn starts_to(&self, number: usize) -> Vec<String> {
        until("processes are started", async || Some(self.started()).filter(|it| it.len() >= number)).await
    }

    /// Of all that were started one is there, and no more come.
    pub async fn one_runs(&self) {
        let running =
            || self.started().into_iter().filter(|line| alive(line.split(' ').next().unwrap_or(""))).count();
        until("one runs", async || (running() == 1).then_some(())).await;
        sleep(Duration::from_millis(300)).await;
        assert_eq!(running(), 1);
    }

    /// As `kill -9` does.
    pub fn kill_agent(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            agent.kill().expect("killed");
            agent.wait().expect("reaped");
        }
    }

    pub async fn stop_agent(&mut self) {
        // One that does not listen yet is killed by what it is told.
        let runs = || self.log().matches("the agent runs").count() == self.agents;
        until("the agent runs", async || runs().then_some(())).await;
        let mut agent = self.agent.take().expect("an agent");
        Command::new("kill").arg(agent.id().to_string()).status().expect("told");
        let ended = until("the agent ends", async || agent.try_wait().expect("a child")).await;
        assert!(ended.success(), "{ended}");
    }

    /// So many replicas were taken up by agents that came back.
    pub async fn taken_up(&self, times: usize) {
        until("what was left is taken up", async || {
            (self.log().matches("taken up").count() >= times).then_some(())
        })
        .await;
    }

    pub async fn agent_died(&mut self, point: &str) {
        let mut agent = self.agent.take().expect("an agent");
        let ended =
            until(&format!("the agent dies at {point}"), async || agent.try_wait().expect("a child")).await;
        assert!(!ended.success());
    }

    pub fn kill_process(&self, pid: &str) {
        Command::new("kill").args(["-9", pid]).status().expect("killed");
    }

    /// From now on the server is not there for the agent.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }

    pub fn mend(&self) {
        self.cut.store(false, Ordering::SeqCst);
    }

    pub fn revision(&self) -> Revision {
        self.world.revision()
    }

    /// The node's uid and epoch, once it is registered and its lease held at that epoch.
    pub async fn node(&self) -> (Uid, Epoch) {
        until("the node is ready", async || {
            let node = self.client.api::<Node>().find(NODE).await.expect("an answer")?;
            let status = node.status?;
            let held = self.client.leases().holders("setpoint-system").await.expect("an answer");
            let held = held.iter().any(|it| it.fence.epoch == status.epoch);
            find_condition(&status.conditions, "Ready").filter(|_| held)?;
            Some((node.metadata.uid, status.epoch))
        })
        .await
    }

    pub async fn bind(&self, name: &str, template: ReplicaTemplate) {
        let (uid, epoch) = self.node().await;
        self.bind_at(name, template, &uid, epoch).await;
    }

    /// As the scheduler and the server do it together.
    pub async fn bind_at(&self, name: &str, template: ReplicaTemplate, node: &Uid, epoch: Epoch) {
        let spec = ReplicaSpec { workload: "web".into(), template, ..ReplicaSpec::default() };
        let mut replica = Typed::<Replica>::new(name, spec);
        replica.metadata.finalizers = vec![HELD_BACK.into()];
        let replicas = self.client.api::<Replica>();
        let mut replica = replicas.create(&replica, &WriteOptions::default()).await.expect("made").object;
        let (stage, binding) = (Stage::Bound, name.to_owned());
        replica.status = Some(ReplicaStatus {
            stage,
            node: NODE.into(),
            node_uid: node.clone(),
            binding,
            ..ReplicaStatus::default()
        });
        replicas.update_status(&replica, &WriteOptions::default()).await.expect("written");
        let spec = BindingSpec {
            replica: name.into(),
            replica_uid: replica.metadata.uid.clone(),
            node: NODE.into(),
            node_uid: node.clone(),
            node_epoch: epoch,
            zone: "a".into(),
            ..BindingSpec::default()
        };
        let binding = Typed::<Binding>::new(name, spec);
        self.client.api::<Binding>().create(&binding, &WriteOptions::default()).await.expect("bound");
    }

    pub async fn delete(&self, name: &str) {
        self.client.api::<Replica>().delete(name, &DeleteOptions::default()).await.expect("deleted");
    }

    pub async fn replica(&self, name: &str) -> Typed<Replica> {
        self.client.api::<Replica>().get(name).await.expect("the replica")
    }

    pub async fn binding(&self, name: &str) -> Typed<Binding> {
        self.client.api::<Binding>().get(name).await.expect("the binding")
    }

    pub async fn seen(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&ReplicaStatus) -> bool,
    ) -> Typed<Replica> {
        let found = async || {
            let replica = self.replica(name).await;
            replica.status.as_ref().is_some_and(&holds).then_some(replica)
        };
        let found = timeout(PATIENCE, wait(found)).await;
        match found {
            Ok(replica) => replica,
            Err(_) => {
                panic!("{name} did not come to {what}: {:?}\n{}", self.replica(name).await.status, self.log())
            }
        }
    }

    pub async fn stage(&self, name: &str, stage: Stage) -> Typed<Replica> {
        self.seen(name, &format!("{stage:?}"), |status| status.stage == stage).await
    }

    pub async fn restarted(&self, name: &str) -> Typed<Replica> {
        self.seen(name, "a restart", |status| status.restarts > 0).await
    }

    /// Why it waits, in words.
    pub async fn blocked(&self, name: &str) -> String {
        let told = |status: &ReplicaStatus| status.blocked.as_ref().is_some_and(|it| !it.message.is_empty());
        let replica = self.seen(name, "a reason", told).await;
        format!("{:?}", replica.status.and_then(|status| status.blocked).expect("a reason"))
    }

    /// The agent has said that nothing of it runs, and has given back what was reserved for it.
    pub async fn stopped(&self, name: &str) {
        let stopped = async || {
            let status = self.binding(name).await.status?;
            status.stopped.filter(|_| status.state == BindingState::Released)
        };
        if timeout(PATIENCE, wait(stopped)).await.is_err() {
            panic!("{name} was not stopped: {:?}\n{}", self.binding(name).await.status, self.log());
        }
    }

    pub async fn gone(&self, pid: &str) {
        until("the process ends", async || (!alive(pid)).then_some(())).await;
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("agent.log")).unwrap_or_default()
    }

    /// The folder that a replica runs in.
    pub async fn work(&self, name: &str) -> PathBuf {
        self.state().join("replicas").join(self.replica(name).await.metadata.uid.as_str()).join("work")
    }

    /// What a replica wrote, by way of the server: until it ends, or so much was read.
    pub async fn logs(&self, name: &str, query: &LogQuery, bytes: usize) -> String {
        let read = async {
            let mut stream = self.client.sessions().logs(name, query).await.expect("a log");
            let mut text = Vec::new();
            while text.len() < bytes
                && let Some(more) = stream.next().await.expect("more of it")
            {
                text.extend_from_slice(&more);
            }
            String::from_utf8(text).expect("text")
        };
        timeout(PATIENCE, read).await.unwrap_or_else(|_| panic!("no log in time\n{}", self.log()))
    }

    /// A command in a replica, by way of the server.
    pub async fn exec(&self, name: &str, script: &str, interactive: bool) -> (ExecInput, ExecOutput) {
        let exec = self.client.sessions().exec(name).await;
        let exec = exec.unwrap_or_else(|error| panic!("{error}: {error:?}\n{}", self.log()));
        exec.run(&["/bin/sh", "-c", script].map(str::to_owned), interactive).await
    }

    /// Why no command can be run in a replica, if it is so.
    pub async fn try_exec(&self, name: &str) -> Result<(), String> {
        self.client.sessions().exec(name).await.map(drop).map_err(|error| error.to_string())
    }

    fn shims(&self) -> Vec<u32> {
        let runs = std::fs::read_dir(self.state().join("runs")).into_iter().flatten().flatten();
        runs.filter_map(|entry| match RunFolder::new(entry.path()).claimed() {
            Ok(Some(Claim::Shim(shim))) => shim.is_there().then_some(shim.pid),
            _ => None,
        })
        .filter(|pid| alive(&pid.to_string()))
        .collect()
    }

    /// Neither a shim nor a process nor a group.
    pub async fn no_process_is_left(&self) {
        until("all shims end", async || self.shims().is_empty().then_some(())).await;
        for line in self.started() {
            assert!(!alive(line.split(' ').next().unwrap_or("")), "{line} is alive");
        }
        assert!(self.hierarchy().runs().expect("the groups").is_empty(), "a group is left");
    }

    /// What the agent's groups and containers carry.
    pub fn mark(&self) -> String {
        let text = std::fs::read_to_string(self.state().join("agent.json")).unwrap_or_default();
        let written: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        written["instance"].as_str().unwrap_or("none").to_owned()
    }

    /// The agent's group, below the mount of each tree.
    fn group(&self) -> PathBuf {
        Path::new(&self.parent).join(NODE).join(self.mark())
    }

    fn hierarchy(&self) -> Hierarchy {
        Hierarchy::detect(Path::new("/sys/fs/cgroup"), &self.group())
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.kill_agent();
        if !self.socket.is_empty() {
            // What a test that failed has left.
            let of = format!("label=setpoint.agent={}", self.mark());
            let remove =
                format!("docker ps --all --quiet --filter {of} | xargs --no-run-if-empty docker rm --force");
            let mut remove = sh(&remove);
            remove.env("DOCKER_HOST", format!("unix://{}", self.socket)).status().ok();
        }
        for pid in self.shims() {
            self.kill_process(&pid.to_string());
        }
        let hierarchy = self.hierarchy();
        for run in hierarchy.runs().unwrap_or_default() {
            let group = hierarchy.group(&run, &Limits::default());
            group.kill_all();
            group.remove();
        }
        for tree in ["", "memory", "cpu", "pids", "unified"] {
            for folder in self.group().ancestors().filter(|folder| !folder.as_os_str().is_empty()) {
                std::fs::remove_dir(Path::new("/sys/fs/cgroup").join(tree).join(folder)).ok();
            }
        }
        if std::thread::panicking() {
            println!("{}", self.log());
        }
    }
}

fn sh(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Whether a process runs.
pub fn alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

async fn wait<T>(mut found: impl AsyncFnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = found().await {
            return found;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

pub async fn until<T>(what: &str, found: impl AsyncFnMut() -> Option<T>) -> T {
    timeout(PATIENCE, wait(found)).await.unwrap_or_else(|_| panic!("it is waited in vain until {what}"))
}

/// The world as a server. While it is cut off, what comes is lost, and what is open breaks.
async fn serve(listener: TcpListener, wire: Wire, cut: Arc<AtomicBool>) {
    while let Ok((stream, _)) = listener.accept().await {
        if cut.load(Ordering::SeqCst) {
            continue;
        }
        let (wire, cut) = (wire.clone(), cut.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| answer(wire.clone(), request));
            let server = auto::Builder::new(TokioExecutor::new()).http2_only();
            let serving = server.serve_connection(TokioIo::new(stream), service);
            let broken = async move {
                while !cut.load(Ordering::SeqCst) {
                    sleep(Duration::from_millis(20)).await;
                }
            };
            tokio::select! {
                _ = serving => {}
                () = broken => {}
            }
        });
    }
}

async fn answer(wire: Wire, request: Request<Incoming>) -> Result<Response<Body>, WireError> {
    wire.oneshot(request.map(Body::new)).await
}

/// Both outputs of a command, and its code.
pub async fn finished(mut output: ExecOutput) -> (String, String, u32) {
    let (mut out, mut errors) = (Vec::new(), Vec::new());
    let end = async {
        loop {
            match output.next().await.expect("more of it") {
                ExecEvent::Output(bytes) => out.extend_from_slice(&bytes),
                ExecEvent::Errors(bytes) => errors.extend_from_slice(&bytes),
                ExecEvent::End(code) => return code,
            }
        }
    };
    let code = timeout(PATIENCE, end).await.expect("it ends in time");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (text(out), text(errors), code)
}
