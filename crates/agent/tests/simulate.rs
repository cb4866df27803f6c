//! Simulated nodes, against the server's own services in simulated time: they are nodes to everybody else.

use std::time::Duration;

use clap::Parser;
use setpoint_agent::clock::Clock;
use setpoint_agent::settings::Cli;
use setpoint_agent::simulate;
use setpoint_client::{Client, DeleteOptions, Typed, WriteOptions};
use setpoint_testkit::World;
use setpoint_types::kinds::{
    Binding, BindingSpec, BindingState, Node, Replica, ReplicaSpec, ReplicaStatus, ReplicaTemplate, Stage,
};
use tokio_util::sync::CancellationToken;

async fn bind(client: &Client, name: &str, node: &Typed<Node>) {
    let template = ReplicaTemplate { command: vec!["run".into()], ..ReplicaTemplate::default() };
    let spec = ReplicaSpec { workload: "web".into(), template, ..ReplicaSpec::default() };
    let mut replica = Typed::<Replica>::new(name, spec);
    replica.metadata.finalizers = vec!["test/held".into()];
    let replicas = client.api::<Replica>();
    let mut replica = replicas.create(&replica, &WriteOptions::default()).await.expect("made").object;
    let node_name = node.metadata.name.clone();
    replica.status = Some(ReplicaStatus { node: node_name.clone(), ..ReplicaStatus::default() });
    replicas.update_status(&replica, &WriteOptions::default()).await.expect("written");
    let spec = BindingSpec {
        replica: name.into(),
        replica_uid: replica.metadata.uid.clone(),
        node: node_name,
        node_uid: node.metadata.uid.clone(),
        node_epoch: node.status.as_ref().expect("a status").epoch,
        ..BindingSpec::default()
    };
    client.api::<Binding>().create(&Typed::new(name, spec), &WriteOptions::default()).await.expect("bound");
}

#[tokio::test(start_paused = true)]
async fn they_register_hold_their_leases_and_say_that_what_is_bound_serves() {
    let world = World::new();
    let words =
        ["setpoint-agent", "--name", "many", "--listen-http", "127.0.0.1:0", "--simulate-start-ms", "700"];
    let args = Cli::try_parse_from(words).expect("the words make sense").run;
    let stop = CancellationToken::new();
    let (client, clock) = (world.client_as("agents"), Clock::following_tokio(world.now()));
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { simulate::run(&args, 20, client, clock, stop).await }
    });
    world.pass(Duration::from_secs(5)).await;
    let nodes = world.state().all::<Node>();
    assert_eq!(nodes.len(), 20);
    let zones: std::collections::BTreeSet<&str> = nodes.iter().map(|node| node.spec.zone.as_str()).collect();
    assert_eq!(zones.len(), 3);

    // Two minutes without a write, and all leases are still held at the same epochs.
    let revision = world.revision();
    world.pass(Duration::from_secs(120)).await;
    assert_eq!(world.revision(), revision);
    let held = world.client().leases().holders("setpoint-system").await.expect("an answer");
    assert_eq!(held.len(), 20);

    bind(&world.client(), "web-0", &nodes[7]).await;
    world.pass(Duration::from_millis(600)).await;
    let stage =
        || world.state().one::<Replica>("default", "web-0").and_then(|it| it.status).expect("a status").stage;
    assert_eq!(stage(), Stage::Admitted);
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(stage(), Stage::Serving);
    let binding =
        || world.state().one::<Binding>("default", "web-0").and_then(|it| it.status).expect("a status");
    assert!(binding().accepted && binding().stopped.is_none());

    world.client().api::<Replica>().delete("web-0", &DeleteOptions::default()).await.expect("deleted");
    world.pass(Duration::from_secs(1)).await;
    assert!(binding().stopped.is_some());
    assert_eq!(binding().state, BindingState::Released);
    stop.cancel();
    running.await.expect("no panic").expect("a good end");
}
