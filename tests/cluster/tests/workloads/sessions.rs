//! Logs of replicas and commands in them, by way of every node of the store: read while they come, by some who do not read; and what
//! becomes of them when an agent is killed and the workload deleted.

use std::process::Command;
use std::time::Duration;

use setpoint_client::{Client, Error, ExecEvent, ExecInput, ExecOutput, LogQuery, LogStream, Settings};
use setpoint_cluster_tests::metrics::Scrape;
use setpoint_etcd_tests::cluster::program;
use setpoint_types::kinds::{ReplicaTemplate, Stage};
use tokio::time::timeout;

use crate::estate::Estate;
use crate::shop::{amounts, workload};

const PATIENCE: Duration = Duration::from_secs(60);
/// More than a lease of the agents lasts.
const LEASE: Duration = Duration::from_secs(8);
/// More than all windows and pipes on the way hold.
const MUCH: &str = "head -c 100000000 /dev/zero";

/// Counts, and says how far it has come.
fn ticking() -> ReplicaTemplate {
    let script = "n=0; while :; do n=$((n+1)); echo tick $n; sleep 0.05; done";
    ReplicaTemplate {
        command: ["/bin/sh", "-c", script].map(str::to_owned).into(),
        resources: amounts(100, 64 << 20),
        termination_grace_seconds: 1,
        ..ReplicaTemplate::default()
    }
}

/// A client of one node of the store alone.
fn client_of(address: &str) -> Client {
    let mut settings = Settings::new(vec![address.parse().expect("an address")]);
    settings.timeouts.call = PATIENCE;
    settings.attempts_max = 1000;
    Client::new(settings).expect("settings that fit")
}

async fn exec(client: &Client, replica: &str, script: &str) -> (ExecInput, ExecOutput) {
    let opened = client.sessions().exec(replica).await.unwrap_or_else(|error| panic!("{error}: {error:?}"));
    opened.run(&["/bin/sh", "-c", script].map(str::to_owned), true).await
}

async fn said(output: &mut ExecOutput) -> Result<ExecEvent, Error> {
    timeout(PATIENCE, output.next()).await.expect("it says something in time")
}

async fn first_line(output: &mut ExecOutput) -> String {
    match said(output).await.expect("an answer") {
        ExecEvent::Output(bytes) => String::from_utf8_lossy(&bytes).trim().to_owned(),
        other => panic!("{other:?}"),
    }
}

async fn follow(client: &Client, replica: &str) -> LogStream {
    let query = LogQuery { follow: true, ..LogQuery::default() };
    client.sessions().logs(replica, &query).await.expect("a log")
}

/// What a log says until it says this, or ends.
async fn read(log: &mut LogStream, until: &str) -> String {
    let read = async {
        let mut text = String::new();
        while !text.contains(until)
            && let Some(bytes) = log.next().await.expect("more of it")
        {
            text.push_str(&String::from_utf8_lossy(&bytes));
        }
        text
    };
    timeout(PATIENCE, read).await.expect("in time")
}

impl Estate {
    /// A replica of this workload that serves, and its node.
    async fn one_of(&self, workload: &str) -> (String, String) {
        let look = async || {
            let replicas = self.replicas(workload).await;
            let serving = replicas.iter().find_map(|replica| {
                let status = replica.status.as_ref().filter(|status| status.stage == Stage::Serving)?;
                Some((replica.metadata.name.clone(), status.node.clone()))
            });
            serving.ok_or(replicas.len())
        };
        self.until("a replica serves", look).await
    }

    async fn epoch(&self, host: &str) -> Option<f64> {
        let host = self.hosts.iter().find(|it| it.name == host).expect("the host");
        Scrape::of(&host.agent.http).await.and_then(|scrape| scrape.get("setpoint_agent_lease_epoch"))
    }
}

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// The command line, as a process: both outputs, and its code.
async fn setpoint(estate: &Estate, words: &[&str]) -> (String, String, Option<i32>) {
    let mut command = Command::new(program("setpoint").expect("the program is built"));
    command.arg("-s").arg(estate.bed.addresses().join(",")).args(words);
    command.env("HOME", estate.bed.cluster.root()).env_remove("SETPOINT_CONFIG");
    let run = tokio::task::spawn_blocking(move || command.output().expect("it runs"));
    let output = timeout(PATIENCE, run).await.expect("it ends in time").expect("no panic");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_and_commands_go_by_way_of_every_node_and_end_with_what_they_are_about() {
    let mut estate = Estate::start("sessions").await;
    estate.submit(&workload("tick", 1, ticking())).await;
    let (replica, node) = estate.one_of("tick").await;
    let clients: Vec<Client> = estate.bed.addresses().iter().map(|address| client_of(address)).collect();
    for client in &clients {
        let text = read(&mut follow(client, &replica).await, "tick 9\n").await;
        assert!(text.starts_with("tick 1\ntick 2\n"), "{text}");
        let (_input, mut output) = exec(client, &replica, "echo $SETPOINT_NODE; exit 3").await;
        assert_eq!(first_line(&mut output).await, node);
        assert_eq!(said(&mut output).await.expect("an end"), ExecEvent::End(3));
    }

    // Who does not read holds up neither others nor the node's lease.
    let epoch = estate.epoch(&node).await;
    let mut unread = Vec::new();
    for _ in 0..8 {
        unread.push(exec(&clients[0], &replica, MUCH).await);
    }
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < LEASE {
        let (_input, mut output) = exec(&clients[0], &replica, "echo quick").await;
        assert_eq!(first_line(&mut output).await, "quick");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(estate.epoch(&node).await, epoch, "the lease was lost");
    drop(unread);

    let (out, err, code) =
        setpoint(&estate, &["exec", &replica, "--", "/bin/sh", "-c", "echo out; echo err >&2; exit 42"])
            .await;
    assert_eq!((out.as_str(), err.as_str(), code), ("out\n", "err\n", Some(42)));
    let (out, err, code) = setpoint(&estate, &["logs", &replica, "--tail", "2"]).await;
    assert_eq!((out.lines().count(), code), (2, Some(0)), "{out}{err}");

    // With its agent a command ends; the replica goes on, and is asked again once an agent is back.
    let stays = "trap '' TERM HUP; setsid sleep 1001 & echo $$ $!; wait";
    let (_input, mut output) = exec(&clients[1], &replica, stays).await;
    let pids = first_line(&mut output).await;
    estate.host(&node).agent.kill();
    let gone = async || if pids.split(' ').any(is_alive) { Err(pids.clone()) } else { Ok(()) };
    estate.until("the command ends with its agent", gone).await;
    assert!(said(&mut output).await.is_err());
    let host = estate.host(&node);
    host.agent.start();
    host.agent.ready().await;

    let (_input, mut output) = exec(&clients[1], &replica, "echo again").await;
    assert_eq!(first_line(&mut output).await, "again");
    let restarts: Vec<_> =
        estate.replicas("tick").await.into_iter().map(|it| it.status.map(|it| it.restarts)).collect();
    assert_eq!(restarts, [Some(0)]);

    // Deleted while somebody follows it and runs something in it, both have an end, and nothing is left.
    let (_input, mut output) = exec(&clients[2], &replica, stays).await;
    let pids = first_line(&mut output).await;
    let mut log = follow(&clients[2], &replica).await;
    read(&mut log, "tick 20\n").await;
    estate.delete("tick").await;
    read(&mut log, "never said").await;
    assert_eq!(said(&mut output).await.expect("an end"), ExecEvent::End(137));
    assert!(!pids.split(' ').any(is_alive), "{pids}");
    estate.nothing_is_left().await;
    estate.check();
}
