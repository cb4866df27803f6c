//! The scheduler against the server's own Placement service, in the process of the test: binds, refusals, faults, two at once.

mod cluster;

use std::time::Duration;

use cluster::{add_node, add_replicas, converged, fits, replica_of, set_up, start};
use setpoint_client::{Client, Error};
use setpoint_testkit::{Limits, Scenario, World, sweep};
use setpoint_types::kinds::{Binding, PendingReason, Replica};

#[tokio::test(start_paused = true)]
async fn replicas_get_nodes_and_those_without_are_told_why() {
    let world = World::new();
    set_up(world.client()).await.expect("set up");
    let (stop, running) = start(world.client_as("scheduler"), "one");
    add_replicas(world.client(), "web", 0..5, "1").await.expect("replicas");
    world.pass(Duration::from_secs(10)).await;
    let state = world.state();
    assert_eq!(state.all::<Binding>().len(), 4, "two nodes with two processors each");
    let waits = state.all::<Replica>().into_iter().find_map(|it| it.status.and_then(|it| it.blocked));
    let blocked = waits.expect("one of them is told why");
    assert_eq!(blocked.reason, PendingReason::Capacity, "{blocked:?}");
    assert!(blocked.message.contains("it needs 1 cpu"), "{blocked:?}");

    // It is the same an hour later, and nothing is written meanwhile but by the recorder.
    let before = world.revision();
    world.pass(Duration::from_secs(240)).await;
    let written = world.revision().get() - before.get();
    assert!(written < 40, "{written} revisions in a quiet cluster, most of them keep-alives");

    add_node(world.client(), "c", "1").await.expect("a node");
    world.pass(Duration::from_secs(10)).await;
    assert_eq!(world.state().all::<Binding>().len(), 5);
    stop.cancel();
    running.await.expect("it ends in order");
}

#[tokio::test(start_paused = true)]
async fn two_schedulers_share_the_work_and_bind_nobody_twice() {
    let world = World::new();
    set_up(world.client()).await.expect("set up");
    let one = start(world.client_as("one"), "one");
    let two = start(world.client_as("two"), "two");
    world.pass(Duration::from_secs(30)).await;
    for workload in 0..8 {
        add_replicas(world.client(), &format!("w{workload}"), 0..2, "200m").await.expect("replicas");
    }
    world.pass(Duration::from_secs(20)).await;
    assert_eq!(world.state().all::<Binding>().len(), 16);
    fits(&world.state()).expect("no node has more than it can");
    // The one that is left takes over.
    one.0.cancel();
    one.1.await.expect("it ends in order");
    for workload in 8..12 {
        add_replicas(world.client(), &format!("w{workload}"), 0..1, "1m").await.expect("replicas");
    }
    world.pass(Duration::from_secs(60)).await;
    assert_eq!(world.state().all::<Binding>().len(), 20);
    two.0.cancel();
    two.1.await.expect("it ends in order");
}

#[test]
fn whatever_goes_wrong_everybody_is_bound_once_or_told_why() {
    let replicas = |client: Client| async move { add_replicas(client, "web", 0..5, "1").await };
    let node = |client: Client| async move { add_node(client, "c", "1").await };
    let scenario = Scenario::new(|client, stop| async move {
        cluster::run(client, "swept", stop).await;
    })
    .setup(set_up)
    .step("replicas come", replicas)
    .step("a node comes", node)
    .converged(converged)
    .invariant("no node has more than it can", |moment| fits(&moment.state))
    .invariant("a binding is one replica's for good", |moment| {
        let bindings = moment.changes.iter().filter(|it| it.key.kind == "Binding");
        let mut both = bindings.filter_map(|it| Some((it, it.before.as_ref()?, it.after.as_ref()?)));
        let changed = both.find(|(_, before, after)| replica_of(before) != replica_of(after));
        changed.map_or(Ok(()), |(it, ..)| Err(format!("{} is another's", it.key)))
    })
    // Which node somebody gets depends on what is seen first.
    .may_differ(|object| !["Binding", "Replica", "Decision", "Lease"].contains(&&*object.kind));
    let limits = Limits { places_max: 3, drawn: 1, quiet: Duration::from_secs(120), ..Limits::default() };
    sweep(&scenario.limits(limits));
}

/// Used by the scenarios.
pub type Result<T> = std::result::Result<T, Error>;
