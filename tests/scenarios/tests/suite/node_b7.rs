//! The worked example of a bind during the failure of a node: the scheduler selects node-b7, the answer to its bind is lost, the node's
//! heartbeat is late, and the workload is still not ready. One binding and one reservation, whatever was answered; no new placement on
//! the late node, and nothing that runs there is touched. The weak one begins anew after each timeout.

use std::time::Duration;

use serde_json::json;
use setpoint_client::{Client, Error, Patch, PatchOptions, Typed, WriteOptions};
use setpoint_testkit::{At, Fault, Faults, Plan, State, World};
use setpoint_types::kinds::{Binding, BindingSpec, BindingState, Node, Replica, Stage, Workload};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::fleet::{Fleet, Shape};
use super::rules::{audit, nothing_is_left};
use super::whole::{controllers, create, scheduler, until, workload};

/// A recovery replica of risk-api, and two nodes of which b7 is the one that is chosen: c1 is smaller than the replica.
async fn risk_api(world: &World, fleet: &Fleet) {
    let client = world.client_as("author");
    fleet.begin(&client).await.expect("a namespace");
    fleet.add(Shape::new("b7", "b", 4_000));
    until(world, "b7 is there", |state| is_ready(state, "b7")).await;
    tokio::spawn(controllers(world.client_as("controller"), CancellationToken::new()));
}

fn is_ready(state: &State, node: &str) -> Result<(), String> {
    let node = state.one::<Node>("", node).ok_or("no node")?;
    let is_ready = node.status.is_some_and(|it| it.conditions.iter().any(|it| it.kind == "Ready"));
    is_ready.then_some(()).ok_or_else(|| "not ready".to_owned())
}

fn is_bound(state: &State) -> Result<(), String> {
    match state.count("Binding") {
        0 => Err("not bound".to_owned()),
        _ => Ok(()),
    }
}

/// Which of the scheduler's writes is the bind.
async fn number_of_the_bind() -> u64 {
    let (world, fleet) = (World::new(), Fleet::default());
    risk_api(&world, &fleet).await;
    let faults = Faults::new(&world, &Plan::default());
    let process = faults.process("scheduler");
    tokio::spawn(scheduler(process.client(), CancellationToken::new()));
    create(&world.client_as("author"), &workload("risk-api", 1, "serve")).await.expect("a workload");
    for _ in 0..600_000 {
        if is_bound(&world.state()).is_ok() {
            return faults.counts().writes;
        }
        // As fine as a request: the bind is then the last one that was sent.
        sleep(Duration::from_millis(1)).await;
    }
    panic!("it was never bound");
}

/// What the scheduler's bind comes to if this happens to it, and b7 is heard late right after.
async fn bind_with(fault: Fault) -> World {
    let bind = number_of_the_bind().await;
    let (world, fleet) = (World::new(), Fleet::default());
    risk_api(&world, &fleet).await;
    let faults = Faults::new(&world, &Plan::one(fault, At::Write(bind)));
    let process = faults.process("scheduler");
    tokio::spawn(scheduler(process.client(), CancellationToken::new()));
    let client = world.client_as("author");
    create(&client, &workload("risk-api", 1, "serve")).await.expect("a workload");
    if fault != Fault::LoseRequest {
        until(&world, "the bind is committed, whatever was answered", is_bound).await;
    }
    fleet.slow_fetch("b7", Duration::from_secs(45));
    fleet.stall("b7", Duration::from_secs(30));
    fleet.add(Shape::new("c1", "c", 4_000));
    until(&world, "b7 is late", |state| {
        let node = state.one::<Node>("", "b7").ok_or("no node")?;
        let is_late = node.spec.taints.iter().any(|it| it.value == "late");
        is_late.then_some(()).ok_or_else(|| format!("{:?}", node.spec.taints))
    })
    .await;
    // What comes now is placed elsewhere.
    create(&client, &workload("late-comer", 1, "serve")).await.expect("a workload");
    until(&world, "the late-comer has a node", |state| {
        let mut bindings = state.all::<Binding>().into_iter();
        let found = bindings.find(|it| it.spec.replica.starts_with("late-comer")).ok_or("no binding")?;
        if found.spec.node == "b7" { Err("it is on the late node".to_owned()) } else { Ok(()) }
    })
    .await;
    until(&world, "both serve", |state| {
        let serving = state
            .all::<Replica>()
            .into_iter()
            .filter(|it| it.status.as_ref().is_some_and(|status| status.stage == Stage::Serving));
        if serving.count() == 2 { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    world
}

/// One binding of risk-api, of which nothing was ever taken back, with one reservation in each ledger; one replica; the number as it was.
fn check(world: &World) {
    let state = world.state();
    let of_risk_api = |name: &str| name.starts_with("risk-api");
    let history = world.history();
    let made = history.changes().filter(|(_, it)| it.key.kind == "Binding" && it.before.is_none());
    assert_eq!(made.filter(|(_, it)| of_risk_api(&it.key.name)).count(), 1, "bound once");
    let binding =
        state.all::<Binding>().into_iter().find(|it| of_risk_api(&it.metadata.name)).expect("bound");
    let status = binding.status.unwrap_or_default();
    assert_eq!((status.state, status.grace_until), (BindingState::Bound, None), "nothing destructive");
    let owner = format!("default/{}/{}", binding.metadata.name, binding.metadata.uid);
    let reserved: Vec<&str> = state.reservations().filter(|it| it.1 == owner).map(|it| it.0).collect();
    let mut wanted: Vec<&str> = binding.spec.reservations.iter().map(|it| it.ledger.as_str()).collect();
    wanted.sort_unstable();
    assert_eq!(reserved, wanted, "one reservation for each of its ledgers, and no other");
    let replicas = history.changes().filter(|(_, it)| it.key.kind == "Replica" && it.before.is_none());
    assert_eq!(replicas.filter(|(_, it)| of_risk_api(&it.key.name)).count(), 1, "one replica");
    let wanted = state.one::<Workload>("default", "risk-api").expect("a workload").spec.replicas;
    assert_eq!(wanted, 1, "nobody asks for more");
    nothing_is_left(&state).expect("nothing is left");
    audit(&history).expect("everything holds at every revision");
}

#[tokio::test(start_paused = true)]
async fn a_bind_whose_answer_is_lost_is_one_binding() {
    check(&bind_with(Fault::LoseAnswer).await);
}

#[tokio::test(start_paused = true)]
async fn a_bind_that_is_done_after_its_sender_gave_it_up_is_one_binding() {
    check(&bind_with(Fault::Late(Duration::from_secs(5))).await);
}

#[tokio::test(start_paused = true)]
async fn a_bind_that_is_done_twice_is_one_binding() {
    check(&bind_with(Fault::Duplicate(Duration::from_secs(5))).await);
}

/// Retries from the beginning without checking what happened: another node, another binding, and a larger number as nobody is ready.
async fn weak(client: Client) -> Result<(), Error> {
    for node in ["b7", "c1"] {
        let (replicas, _) = client.api::<Replica>().list_all(&Default::default()).await?;
        let Some(replica) = replicas.first() else { continue };
        let spec = BindingSpec {
            replica: replica.metadata.name.clone(),
            replica_uid: replica.metadata.uid.clone(),
            node: node.to_owned(),
            node_uid: client.api::<Node>().get(node).await?.metadata.uid,
            ..BindingSpec::default()
        };
        let mut binding = Typed::<Binding>::new("", spec).in_namespace("default");
        binding.metadata.generate_name = "weak-".to_owned();
        // The answer is lost: whoever takes that for a no goes on with the next node.
        drop(client.api::<Binding>().create(&binding, &WriteOptions::default()).await);
        let more = Patch::Merge(json!({"spec": {"replicas": 2}}));
        client.api::<Workload>().patch("risk-api", &more, &PatchOptions::default()).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_weak_one_leaves_two_bindings_and_asks_for_more() {
    let (world, fleet) = (World::new(), Fleet::default());
    risk_api(&world, &fleet).await;
    let client = world.client_as("author");
    fleet.add(Shape::new("c1", "c", 4_000));
    until(&world, "c1 is there", |state| is_ready(state, "c1")).await;
    create(&client, &workload("risk-api", 1, "serve")).await.expect("a workload");
    until(&world, "a replica", |state| if state.count("Replica") == 1 { Ok(()) } else { Err(String::new()) })
        .await;
    weak(world.client_as("weak")).await.expect("nothing stops it");
    let violation = audit(&world.history()).expect_err("two bindings of one replica");
    assert_eq!(violation.invariant, "F3: no double bind", "{violation:?}");
    let wanted = world.state().one::<Workload>("default", "risk-api").expect("a workload").spec.replicas;
    assert_eq!(wanted, 2, "and the pressure grows");
}
