//! risk-api needs four recovery replicas in eu-west after eu-central degrades, and everything is slow at once: an image on one node, the
//! heartbeat of another, and there is room for three of the four. Two of four is visible as two of four, each of the others with its
//! reason, and nothing that was achieved is thrown away. The weak one takes "not ready" for "failed".

use std::time::Duration;

use setpoint_client::{Client, DeleteOptions, Typed};
use setpoint_testkit::{State, World};
use setpoint_types::kinds::{
    Binding, BindingState, Node, PendingReason, Replica, Stage, Workload, WorkloadStatus,
};
use tokio::time::sleep;

use super::fleet::{Fleet, Shape};
use super::rules::{audit, nothing_is_left, serves};
use super::whole::{create, start_everybody, until, workload};

/// How long the slow image takes.
const FETCH: Duration = Duration::from_secs(240);

fn recovery() -> Typed<Workload> {
    let mut recovery = workload("risk-api", 4, "serve");
    recovery.spec.template.placement.zones = vec!["eu-west".to_owned()];
    recovery
}

async fn degraded(world: &World, fleet: &Fleet) -> Client {
    let client = world.client_as("author");
    fleet.begin(&client).await.expect("a namespace");
    fleet.add(Shape::new("c1", "eu-central", 4_000));
    // Slow to fetch, late, and well: room for three.
    for name in ["w1", "w2", "w3"] {
        fleet.add(Shape::new(name, "eu-west", 1_000));
    }
    fleet.slow_fetch("w1", FETCH);
    until(world, "the nodes are there", |state| match state.all::<Node>().len() {
        4 => Ok(()),
        some => Err(format!("{some} nodes")),
    })
    .await;
    fleet.crash("c1");
    client
}

fn status(state: &State) -> WorkloadStatus {
    state.one::<Workload>("default", "risk-api").and_then(|it| it.status).unwrap_or_default()
}

/// What is told of the four while everything is slow.
fn is_partial(state: &State) -> Result<(), String> {
    let status = status(state);
    let counts = &status.replicas;
    let told = (counts.desired, counts.serving, counts.pending, counts.starting);
    let waits =
        |reason: PendingReason| status.pending_reasons.iter().any(|it| it.reason == reason && it.count == 1);
    match told == (4, 2, 1, 1) && waits(PendingReason::Capacity) {
        true => Ok(()),
        false => Err(format!("{told:?} {:?}", status.pending_reasons)),
    }
}

#[tokio::test(start_paused = true)]
async fn two_of_four_is_two_of_four_and_nothing_of_it_is_thrown_away() {
    let (world, fleet) = (World::new(), Fleet::default());
    let client = degraded(&world, &fleet).await;
    start_everybody(&world);
    create(&client, &recovery()).await.expect("a workload");
    until(&world, "two of four serve, one starts, one waits", is_partial).await;
    fleet.stall("w2", Duration::from_secs(30));
    until(&world, "w2 is late", |state| {
        let node = state.one::<Node>("", "w2").ok_or("no node")?;
        node.spec.taints.iter().any(|it| it.value == "late").then_some(()).ok_or_else(|| "not yet".to_owned())
    })
    .await;
    is_partial(&world.state()).expect("a late heartbeat takes nothing back");
    let blocked: Vec<(Stage, PendingReason)> = world
        .state()
        .all::<Replica>()
        .into_iter()
        .filter_map(|it| it.status)
        .filter_map(|it| Some((it.stage, it.blocked?.reason)))
        .collect();
    assert!(blocked.contains(&(Stage::Starting, PendingReason::Image)), "{blocked:?}");
    // It stays so as long as nothing changes, and nobody begins anew.
    let before =
        world.history().changes().filter(|(_, it)| it.key.kind == "Replica" && it.before.is_none()).count();
    assert_eq!(before, 4);
    fleet.add(Shape::new("w4", "eu-west", 1_000));
    until(&world, "four serve", |state| serves(state, "risk-api")).await;
    let history = world.history();
    let made = history.changes().filter(|(_, it)| it.key.kind == "Replica" && it.before.is_none()).count();
    let gone = history.changes().filter(|(_, it)| it.key.kind == "Replica" && it.after.is_none()).count();
    assert_eq!((made, gone), (4, 0), "four were made, and none was given up");
    let is_bound = |it: Typed<Binding>| it.status.unwrap_or_default().state == BindingState::Bound;
    assert!(world.state().all::<Binding>().into_iter().all(is_bound));
    nothing_is_left(&world.state()).expect("nothing is left");
    audit(&history).expect("everything holds at every revision");
    fleet.witness().check().expect("one copy of each");
}

/// Whoever is not ready after half a minute has failed, and is begun anew.
async fn weak(client: Client) {
    let api = client.api::<Replica>();
    loop {
        sleep(Duration::from_secs(30)).await;
        let Ok((all, _)) = api.list_all(&Default::default()).await else { continue };
        for replica in all.iter().filter(|it| it.status.as_ref().is_none_or(|it| it.stage != Stage::Serving))
        {
            api.delete(&replica.metadata.name, &DeleteOptions::default()).await.ok();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_weak_one_begins_anew_for_ever() {
    let (world, fleet) = (World::new(), Fleet::default());
    let client = degraded(&world, &fleet).await;
    start_everybody(&world);
    tokio::spawn(weak(world.client_as("weak")));
    create(&client, &recovery()).await.expect("a workload");
    fleet.add(Shape::new("w4", "eu-west", 1_000));
    sleep(4 * FETCH).await;
    assert!(serves(&world.state(), "risk-api").is_err(), "the weak one was patient");
    let made =
        world.history().changes().filter(|(_, it)| it.key.kind == "Replica" && it.before.is_none()).count();
    assert!(made > 20, "{made} replicas were made for four");
}
