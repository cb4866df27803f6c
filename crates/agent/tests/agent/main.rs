//! The real agent against the server's own services, with real processes and containers: from a binding to a serving replica and back,
//! through crashes at every step.
//!
//! - `bed`: a server and an agent; `engine`: an engine, and images for it
//! - this file: processes; `containers`: the same with containers, and an engine that comes and goes; `docker`: the runtime alone; `sessions`: logs and commands

// What a test was not able to try, or saw when it failed, is said to whoever runs it.
#![allow(clippy::print_stdout)]

mod bed;
mod containers;
mod docker;
mod engine;
mod sessions;

use std::time::Duration;

use bed::{Bed, alive};
use setpoint_types::Epoch;
use setpoint_types::kinds::{
    EnvVar, ExecAction, OnDisconnect, Port, Probe, ReplicaTemplate, RestartBackoff, RestartPolicy, Stage,
};

/// Says that it was started, where, and goes on until it is told otherwise.
pub const SERVER: &str =
    "echo $$ $PORT $PORT_HTTP >> $STARTS; trap 'exit 0' TERM; while :; do sleep 0.05; done";

pub fn template(bed: &Bed, script: &str) -> ReplicaTemplate {
    ReplicaTemplate {
        command: ["/bin/sh", "-c", script].map(str::to_owned).into(),
        env: vec![EnvVar { name: "STARTS".into(), value: bed.starts().display().to_string() }],
        ports: vec![Port { name: "http".into(), ..Port::default() }],
        restart_backoff: RestartBackoff { initial_seconds: 0, max_seconds: 1, reset_seconds: 600 },
        termination_grace_seconds: 2,
        ..ReplicaTemplate::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_replica_serves_at_the_port_it_was_given_and_is_stopped_when_it_is_deleted() {
    let mut bed = Bed::new("serves").await;
    bed.start_agent("");
    let mut template = template(&bed, SERVER);
    let command = ["/bin/sh", "-c", "test -s $STARTS"].map(str::to_owned).into();
    template.readiness_probe =
        Some(Probe { exec: Some(ExecAction { command }), period_seconds: 1, ..Probe::default() });
    bed.bind("web-0", template).await;
    let replica = bed.stage("web-0", Stage::Serving).await;
    let status = replica.status.expect("a status");
    let starts = bed.started();
    let [pid, port, named] = starts[0].split(' ').collect::<Vec<_>>()[..] else { panic!("{starts:?}") };
    assert_eq!((status.endpoints[0].port.to_string().as_str(), port), (port, named));
    assert_eq!((status.endpoints[0].host.as_str(), status.restarts, status.blocked), ("127.0.0.1", 0, None));
    assert!(bed.binding("web-0").await.status.is_some_and(|status| status.accepted));
    assert!(alive(pid));

    // No news, no writes.
    let revision = bed.revision();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(bed.revision(), revision, "something was written although nothing changed");

    bed.delete("web-0").await;
    bed.stopped("web-0").await;
    assert!(!alive(pid));
    bed.no_process_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_killed_anywhere_leaves_one_process_and_the_next_takes_it_up() {
    for point in ["agent.recorded", "agent.planned", "agent.spawned", "agent.started", "agent.told"] {
        let mut bed = Bed::new(&point.replace('.', "-")).await;
        bed.start_agent(&format!("{point}=crash@1"));
        bed.bind("web-0", template(&bed, SERVER)).await;
        bed.agent_died(point).await;
        bed.start_agent("");
        let replica = bed.stage("web-0", Stage::Serving).await;
        assert_eq!(bed.starts_to(1).await.len(), 1, "after {point} it was started {:?}", bed.started());
        assert_eq!(replica.status.expect("a status").restarts, 0, "after {point}");
        bed.delete("web-0").await;
        bed.stopped("web-0").await;
        bed.no_process_is_left().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shim_that_dies_anywhere_leaves_nothing_and_the_replica_is_started_again() {
    for point in ["shim.claimed", "shim.started", "shim.before-exit-record"] {
        let mut bed = Bed::new(&point.replace('.', "-")).await;
        bed.start_agent(&format!("{point}=crash@1"));
        let script = if point == "shim.before-exit-record" { "echo $$ >> $STARTS; exit 1" } else { SERVER };
        bed.bind("web-0", template(&bed, script)).await;
        bed.restarted("web-0").await;
        // Each shim is a process of its own, and dies at its own first time: so it goes on until an agent does not ask for it.
        bed.kill_agent();
        bed.start_agent("");
        if script == SERVER {
            bed.stage("web-0", Stage::Serving).await;
            bed.one_runs().await;
        }
        bed.delete("web-0").await;
        bed.stopped("web-0").await;
        bed.no_process_is_left().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_outlive_the_agent_and_their_end_is_told_by_the_next() {
    let mut bed = Bed::new("outlives").await;
    bed.start_agent("");
    bed.bind("web-0", template(&bed, SERVER)).await;
    bed.stage("web-0", Stage::Serving).await;
    let starts = bed.starts_to(1).await;
    let pid = starts[0].split(' ').next().expect("a pid").to_owned();
    bed.kill_agent();
    assert!(alive(&pid));
    bed.start_agent("");
    bed.stage("web-0", Stage::Serving).await;
    // Told to stop, it leaves the process alone.
    bed.stop_agent().await;
    assert!(alive(&pid));
    assert_eq!(bed.started(), starts);
    bed.kill_process(&pid);
    bed.start_agent("");
    let replica = bed.restarted("web-0").await;
    let exit = replica.status.and_then(|status| status.last_exit).expect("an end");
    assert_eq!((exit.signal, exit.reason.as_str()), (Some(9), "Killed"));
    bed.stage("web-0", Stage::Serving).await;
    bed.delete("web-0").await;
    bed.stopped("web-0").await;
    bed.no_process_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_server_an_exclusive_replica_ends_and_another_goes_on() {
    for agent_lives in [true, false] {
        let mut bed = Bed::new(if agent_lives { "cut" } else { "cut-dead" }).await;
        bed.start_agent("");
        let mut exclusive = template(&bed, SERVER);
        exclusive.on_disconnect = OnDisconnect::Exclusive;
        bed.bind("only-0", exclusive).await;
        bed.stage("only-0", Stage::Serving).await;
        let only = bed.starts_to(1).await[0].split(' ').next().expect("a pid").to_owned();
        bed.bind("web-0", template(&bed, SERVER)).await;
        bed.stage("web-0", Stage::Serving).await;
        let keep = bed.starts_to(2).await[1].split(' ').next().expect("a pid").to_owned();
        bed.cut();
        if !agent_lives {
            bed.kill_agent();
        }
        bed.gone(&only).await;
        assert!(alive(&keep), "what may go on was ended");
        bed.mend();
        if !agent_lives {
            bed.start_agent("");
        }
        let replica = bed.stage("only-0", Stage::Failed).await;
        let exit = replica.status.and_then(|status| status.last_exit).expect("an end");
        assert_eq!(exit.reason, "Fenced");
        bed.stopped("only-0").await;
        assert!(alive(&keep), "what may go on was ended");
        assert_eq!(bed.started().len(), 2);
        bed.delete("web-0").await;
        bed.stopped("web-0").await;
        bed.no_process_is_left().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_bound_in_an_earlier_time_with_the_lease_is_not_begun() {
    let mut bed = Bed::new("epoch").await;
    bed.start_agent("");
    let (uid, epoch) = bed.node().await;
    bed.bind_at("web-0", template(&bed, SERVER), &uid, Epoch(epoch.0 - 1)).await;
    bed.stopped("web-0").await;
    assert!(bed.started().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_never_run_ends_in_a_reason() {
    let mut bed = Bed::new("never").await;
    bed.start_agent("");
    let mut missing = template(&bed, "");
    missing.command = vec!["/no/such/program".into()];
    missing.restart_policy = RestartPolicy::Never;
    bed.bind("missing-0", missing).await;
    let status = bed.stage("missing-0", Stage::Failed).await.status.expect("a status");
    let exit = status.last_exit.expect("an end");
    assert_eq!(exit.reason, "NotStarted");
    assert!(exit.message.contains("/no/such/program"), "{}", exit.message);
    bed.stopped("missing-0").await;

    let mut fetched = template(&bed, SERVER);
    fetched.artifacts = vec![setpoint_types::kinds::Artifact {
        source: "/no/such/file".into(),
        sha256: "0".repeat(64),
        target: "tool".into(),
        executable: true,
    }];
    bed.bind("fetched-0", fetched).await;
    let blocked = bed.blocked("fetched-0").await;
    assert!(blocked.contains("Image") && blocked.contains("/no/such/file"), "{blocked}");
    bed.delete("fetched-0").await;
    bed.stopped("fetched-0").await;
    bed.no_process_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_one_name_in_one_control_group_leave_each_other_alone() {
    let parent = format!("setpoint-test-{}-shared", std::process::id());
    let mut first = Bed::with("shared-first", &parent, "").await;
    first.start_agent("");
    first.bind("web-0", template(&first, SERVER)).await;
    first.stage("web-0", Stage::Serving).await;
    let pid = first.starts_to(1).await[0].split(' ').next().expect("a pid").to_owned();

    // Of the same name, of another cluster: nothing of the first one's is known to it, and nothing is its to end.
    let mut second = Bed::with("shared-second", &parent, "").await;
    second.start_agent("");
    second.bind("web-0", template(&second, SERVER)).await;
    second.stage("web-0", Stage::Serving).await;
    second.delete("web-0").await;
    second.stopped("web-0").await;
    second.no_process_is_left().await;
    assert!(alive(&pid), "an agent has ended what another one runs");
    assert_eq!(first.started().len(), 1);
    first.delete("web-0").await;
    first.stopped("web-0").await;
    first.no_process_is_left().await;
}
