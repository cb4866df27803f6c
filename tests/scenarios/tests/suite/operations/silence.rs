//! What is heard late, and what is not heard at all: what follows from it, and what does not.

use std::time::Duration;

use setpoint_client::{Client, DeleteOptions, Typed};
use setpoint_controllers::node_monitor::{NAME, SYSTEM, lease_of};
use setpoint_controllers::settings::Settings;
use setpoint_runtime::informer::{InformerSettings, Informers, Selection};
use setpoint_testkit::World;
use setpoint_types::kinds::{Binding, BindingState, Lease, Node};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::operations::stage::{Agents, TTL, bound, condition, namespace, node, run, until, workload};

/// A fleet with an agent each, and a replica on each node.
async fn fleet(world: &World, agents: &Agents, zones: &[(&str, usize)]) {
    let client = world.client_as("author");
    namespace(&client, SYSTEM).await.expect("a namespace");
    workload(&client, "web", 1).await.expect("a workload");
    for (zone, nodes) in zones {
        for number in 0..*nodes {
            let name = format!("{zone}{number}");
            node(&client, &name, zone).await.expect("a node");
            agents.start(&client, &name).await.expect("a lease");
            bound(&client, "web", &format!("web-{name}"), &name).await.expect("a binding");
        }
    }
}

fn start(world: &World) {
    let client = world.client_as("controllers");
    tokio::spawn(async move { run(client, CancellationToken::new(), &[NAME], Settings::default()).await });
}

/// What a node shows of a condition.
fn shown(world: &World, node: &str, kind: &str) -> String {
    let node = world.state().one::<Node>("", node).expect("a node");
    condition(&node.status.map(|status| status.conditions).unwrap_or_default(), kind)
}

fn binding(world: &World, name: &str) -> (BindingState, bool) {
    let binding = world.state().one::<Binding>("default", name).expect("a binding");
    let status = binding.status.unwrap_or_default();
    (status.state, status.grace_until.is_some())
}

/// How many nodes are given up.
fn lost(world: &World) -> usize {
    let nodes = world.state().all::<Node>();
    let is_lost = |it: &&Typed<Node>| {
        let conditions = it.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        condition(conditions, "Lost").starts_with("True")
    };
    nodes.iter().filter(is_lost).count()
}

/// Takes a late heartbeat for a death: what the lesson warns of.
async fn weak_monitor(client: Client) {
    let informers = Informers::new(client.clone(), InformerSettings::default());
    let bindings = informers.cache::<Binding>(Selection::everywhere());
    let leases = informers.cache::<Lease>(Selection::namespace(SYSTEM));
    informers.synced().await.expect("caches");
    loop {
        let holders = client.leases().holders(SYSTEM).await.unwrap_or_default();
        for holder in holders.iter().filter(|it| it.remaining < TTL / 2) {
            let node = holder.fence.lease.trim_start_matches("node-").to_owned();
            for binding in bindings.snapshot().iter().filter_map(|it| it.read().ok()) {
                if binding.spec.node == node {
                    let api = client.api::<Binding>().namespace(&binding.metadata.namespace);
                    api.delete(&binding.metadata.name, &DeleteOptions::default()).await.ok();
                }
            }
        }
        drop(leases.snapshot());
        sleep(Duration::from_secs(5)).await;
    }
}

/// The agent stalls for 30 s of its 40: late, and not lost.
async fn stall(world: &World, agents: &Agents) {
    agents.kill("a0");
    sleep(Duration::from_secs(30)).await;
    let client = world.client_as("author");
    agents.start(&client, "a0").await.expect("the same holder keeps its lease");
    sleep(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn a_late_heartbeat_stops_placement_and_costs_no_replica() {
    let (world, agents) = (World::new(), Agents::default());
    fleet(&world, &agents, &[("a", 2)]).await;
    start(&world);
    until("all are heard", || shown(&world, "a0", "Reachable") == "True LeaseHeld").await;
    agents.kill("a0");
    until("a0 is late", || shown(&world, "a0", "Reachable") == "Unknown HeartbeatLate").await;
    let late = world.state().one::<Node>("", "a0").expect("a0");
    assert_eq!(late.spec.taints.first().map(|taint| taint.value.as_str()), Some("late"));
    let held = world.state().one::<Lease>(SYSTEM, &lease_of("a0")).and_then(|it| it.status).expect("a lease");
    assert!(!held.holder.is_empty(), "it is still held");
    assert_eq!(binding(&world, "web-a0"), (BindingState::Bound, false));
    agents.start(&world.client_as("author"), "a0").await.expect("the same holder keeps its lease");
    until("a0 is heard", || shown(&world, "a0", "Reachable") == "True LeaseHeld").await;
    until("its taint is gone", || world.state().one::<Node>("", "a0").expect("a0").spec.taints.is_empty())
        .await;
    let touched = world
        .history()
        .changes()
        .filter(|(_, it)| it.key.name == "web-a0" && it.key.kind == "Binding")
        .count();
    assert_eq!(touched, 1, "the binding was only ever created");
}

#[tokio::test(start_paused = true)]
async fn the_weak_monitor_kills_by_a_late_heartbeat() {
    let (world, agents) = (World::new(), Agents::default());
    fleet(&world, &agents, &[("a", 2)]).await;
    tokio::spawn(weak_monitor(world.client_as("controllers")));
    stall(&world, &agents).await;
    assert!(world.state().one::<Binding>("default", "web-a0").is_none(), "the weak one was patient");
}

#[tokio::test(start_paused = true)]
async fn a_zone_that_falls_silent_is_given_up_slowly_and_comes_back_whole() {
    let (world, agents) = (World::new(), Agents::default());
    fleet(&world, &agents, &[("a", 6), ("b", 2)]).await;
    start(&world);
    until("all are heard", || shown(&world, "b1", "Reachable") == "True LeaseHeld").await;
    (0..6).for_each(|number| agents.kill(&format!("a{number}")));
    until("one is given up", || lost(&world) == 1).await;
    let began = Instant::now();
    until("all are called unknown", || {
        (0..6).all(|it| binding(&world, &format!("web-a{it}")).0 == BindingState::Unknown)
    })
    .await;
    until("two are given up", || lost(&world) == 2).await;
    assert!(began.elapsed() >= Duration::from_secs(99), "the second after {:?}", began.elapsed());
    let waiting =
        (0..6).filter(|it| binding(&world, &format!("web-a{it}")) == (BindingState::Unknown, false)).count();
    assert_eq!(waiting, 4, "who waits for its turn is not to be released");
    let client = world.client_as("author");
    for number in 0..6 {
        agents.start(&client, &format!("a{number}")).await.expect("a lease");
    }
    until("nothing is lost", || {
        lost(&world) == 0
            && (0..6).all(|it| binding(&world, &format!("web-a{it}")) == (BindingState::Bound, false))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn if_every_zone_is_silent_it_is_us_and_what_was_begun_is_taken_back() {
    let (world, agents) = (World::new(), Agents::default());
    fleet(&world, &agents, &[("a", 2), ("b", 2)]).await;
    start(&world);
    until("all are heard", || shown(&world, "b1", "Reachable") == "True LeaseHeld").await;
    agents.kill("a0");
    until("one is given up", || binding(&world, "web-a0") == (BindingState::Unknown, true)).await;
    ["a1", "b0", "b1"].into_iter().for_each(|node| agents.kill(node));
    until("nobody is given up", || lost(&world) == 0).await;
    until("its grace is taken back", || binding(&world, "web-a0") == (BindingState::Unknown, false)).await;
    sleep(Duration::from_secs(600)).await;
    assert_eq!(lost(&world), 0, "it stays so, however long it lasts");
    agents.start(&world.client_as("author"), "b0").await.expect("a lease");
    until("the others are given up again", || lost(&world) == 3).await;
}
