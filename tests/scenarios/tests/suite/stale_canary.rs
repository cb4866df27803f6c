//! The stale canary: the scheduler has the new policy at once, and its view of nodes and bindings is twenty seconds old. It chooses a node
//! whose last GPU somebody else has taken meanwhile. The cache finds candidates, the commit proves them: the bind is refused, another
//! node is found, and no GPU is given twice. The weak one binds by what it sees.

use std::time::Duration;

use setpoint_client::{Bind, BindGroup, Client, Error, Typed, WriteOptions};
use setpoint_testkit::{Faults, Plan, State, World};
use setpoint_types::kinds::{
    Activation, Binding, BindingSpec, Node, PlacementPolicy, PlacementPolicySpec, PolicyScope, Replica,
    ReplicaSpec, ReplicaTemplate, Reservation,
};
use setpoint_types::quantity::Amounts;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::fleet::{Fleet, Shape};
use super::rules::audit;
use super::whole::{scheduler, until};

const BEHIND: Duration = Duration::from_secs(20);

fn one_gpu() -> Amounts {
    [("gpu".to_owned(), 1)].into_iter().collect()
}

fn host(name: &str, zone: &str) -> Shape {
    Shape { capacity: one_gpu(), ..Shape::new(name, zone, 0) }
}

async fn replica(client: &Client, name: &str) -> Result<Typed<Replica>, Error> {
    let template = ReplicaTemplate {
        command: vec!["serve".to_owned()],
        resources: one_gpu(),
        ..ReplicaTemplate::default()
    };
    let spec = ReplicaSpec { workload: "risk-api".to_owned(), template, ..ReplicaSpec::default() };
    let made = client.api::<Replica>().create(&Typed::new(name, spec), &WriteOptions::default()).await?;
    Ok(made.object)
}

/// The canary: in force for replicas that are placed from now on.
async fn policy(client: &Client) -> Result<(), Error> {
    let spec = PlacementPolicySpec {
        policy: "scheduler-policy".to_owned(),
        version: "v5-canary".to_owned(),
        weight: 100,
        activation: Activation::Active,
        scope: PolicyScope { namespaces: vec!["default".to_owned()], ..PolicyScope::default() },
        ..PlacementPolicySpec::default()
    };
    client.api::<PlacementPolicy>().create(&Typed::new("v5", spec), &WriteOptions::default()).await.map(drop)
}

/// Another scheduler takes the GPU of a node.
async fn take(client: &Client, node: &str) -> Result<(), Error> {
    let other = replica(client, "other-0").await?;
    let node = client.api::<Node>().get(node).await?;
    let bind = Bind {
        namespace: "default".to_owned(),
        replica: other.metadata.name,
        replica_uid: other.metadata.uid,
        replica_generation: other.metadata.generation,
        node: node.metadata.name,
        node_uid: node.metadata.uid,
        node_revision: node.metadata.revision,
        node_epoch: node.status.unwrap_or_default().epoch,
        ..Bind::default()
    };
    let group =
        BindGroup { operation: "the other one".to_owned(), binds: vec![bind], ..BindGroup::default() };
    let results = client.placement().bind(vec![group]).await?;
    assert!(results[0].is_ok(), "{results:?}");
    Ok(())
}

async fn nodes(world: &World, fleet: &Fleet) -> Client {
    let client = world.client_as("author");
    fleet.begin(&client).await.expect("a namespace");
    fleet.add(host("node-b7", "zone-b"));
    until(world, "node-b7 is there", |state| has_nodes(state, 1)).await;
    client
}

fn has_nodes(state: &State, count: usize) -> Result<(), String> {
    let ready =
        state.all::<Node>().into_iter().filter(|it| it.status.as_ref().is_some_and(|it| it.epoch.0 > 0));
    if ready.count() == count { Ok(()) } else { Err("not yet".to_owned()) }
}

fn node_of(state: &State, replica: &str) -> Option<String> {
    state.one::<Binding>("default", replica).map(|it| it.spec.node)
}

#[tokio::test(start_paused = true)]
async fn a_gpu_that_was_taken_meanwhile_is_refused_and_another_is_found() {
    let (world, fleet) = (World::new(), Fleet::default());
    let client = nodes(&world, &fleet).await;
    let faults = Faults::new(&world, &Plan::default());
    for kind in ["Node", "Binding"] {
        faults.delay(kind, BEHIND);
    }
    let process = faults.process("scheduler");
    tokio::spawn(scheduler(process.client(), CancellationToken::new()));
    // Long enough for its view to be whole, if late.
    sleep(Duration::from_secs(180)).await;
    take(&client, "node-b7").await.expect("the other one is first");
    let taken_at = Instant::now();
    policy(&client).await.expect("a policy");
    replica(&client, "risk-api-0").await.expect("a replica");
    fleet.add(host("node-c1", "zone-c"));
    until(&world, "it was refused by the commit", |state| {
        let refused = state.of_kind("Decision").any(|it| {
            it.spec["object"]["name"] == "risk-api-0" && it.spec["verdict"]["outcome"] != "Accepted"
        });
        let is_told = state
            .one::<Replica>("default", "risk-api-0")
            .and_then(|it| it.status)
            .is_some_and(|it| it.blocked.is_some());
        if refused || is_told { Ok(()) } else { Err(format!("{:?}", node_of(state, "risk-api-0"))) }
    })
    .await;
    assert!(
        taken_at.elapsed() < BEHIND,
        "it was tried while its view was old, and not after {:?}",
        taken_at.elapsed()
    );
    assert_eq!(node_of(&world.state(), "risk-api-0"), None);
    until(&world, "a fresh candidate is found", |state| match node_of(state, "risk-api-0").as_deref() {
        Some("node-c1") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let state = world.state();
    assert_eq!(node_of(&state, "other-0").as_deref(), Some("node-b7"), "who was first keeps it");
    let named = state.one::<Binding>("default", "risk-api-0").expect("bound").spec.policy_version;
    assert!(named.contains("v5-canary"), "decided by the policy that it saw at once: {named:?}");
    audit(&world.history()).expect("no GPU was given twice");
}

/// Binds by what its cache says.
#[tokio::test(start_paused = true)]
async fn the_weak_one_gives_one_gpu_twice() {
    let (world, fleet) = (World::new(), Fleet::default());
    let client = nodes(&world, &fleet).await;
    let seen = client.api::<Node>().get("node-b7").await.expect("a node");
    take(&client, "node-b7").await.expect("the other one is first");
    let replica = replica(&client, "risk-api-0").await.expect("a replica");
    let reservations =
        vec![Reservation { ledger: "node/node-b7".to_owned(), amounts: seen.spec.capacity.clone() }];
    let spec = BindingSpec {
        replica: replica.metadata.name.clone(),
        replica_uid: replica.metadata.uid.clone(),
        node: seen.metadata.name,
        node_uid: seen.metadata.uid,
        reservations,
        ..BindingSpec::default()
    };
    let binding = Typed::<Binding>::new("risk-api-0", spec).in_namespace("default");
    let weak = world.client_as("weak");
    weak.api::<Binding>().create(&binding, &WriteOptions::default()).await.expect("nothing stops it");
    let violation = audit(&world.history()).expect_err("two have the GPU of node-b7");
    assert!(violation.invariant.starts_with("F4") || violation.invariant.starts_with("F5"), "{violation:?}");
}
