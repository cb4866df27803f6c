//! The cascade: Workload → ReplicaSet → Replica → node → process, by programs that know only the API. Each writes its own kinds, and one
//! that is killed half-way stops the cascade there and nowhere else; who comes back, or stands by, goes on without making anything twice.

use std::collections::BTreeSet;
use std::time::Duration;

use setpoint_client::Client;
use setpoint_testkit::{Limits, Scenario, State, World, sweep};
use setpoint_types::kinds::{Node, Stage};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::fleet::{Fleet, Shape};
use super::rollouts::forget_the_way;
use super::rules::{audit, nothing_is_left, serves, watched};
use super::whole::{create, scheduler, until, workload};
use super::{is_deep, run};

async fn hosts(client: &Client, fleet: &Fleet) -> Result<(), setpoint_client::Error> {
    fleet.begin(client).await?;
    fleet.add(Shape::new("n1", "a", 2_000));
    fleet.add(Shape::new("n2", "b", 2_000));
    Ok(())
}

/// A program of the cascade by its name.
async fn program(name: &str, client: Client, stop: CancellationToken) {
    match name {
        "scheduler" => scheduler(client, stop).await,
        controller => run(controller, client, stop).await,
    }
}

const PROGRAMS: [&str; 3] = ["workload", "replica", "scheduler"];

/// Kinds whose specs or objects were made by each.
fn written_by(world: &World, who: &str) -> BTreeSet<String> {
    let history = world.history();
    let by = format!("user:{who}");
    let made = history.changes().filter(|(_, it)| it.author.principal == by && it.before.is_none());
    let records = ["Event", "Decision", "Lease"];
    made.map(|(_, it)| it.key.kind.clone()).filter(|it| !records.contains(&it.as_str())).collect()
}

#[tokio::test(start_paused = true)]
async fn each_program_does_its_part_and_one_that_is_killed_stops_the_cascade_only_there() {
    let (world, fleet) = (World::new(), Fleet::default());
    let client = world.client_as("author");
    hosts(&client, &fleet).await.expect("hosts");
    until(&world, "nodes", |state| if state.all::<Node>().len() == 2 { Ok(()) } else { Err(String::new()) })
        .await;
    let mut alive: Vec<(&str, CancellationToken)> = Vec::new();
    let start = |name: &'static str, alive: &mut Vec<(&str, CancellationToken)>| {
        let stop = CancellationToken::new();
        tokio::spawn(program(name, world.client_as(name), stop.clone()));
        alive.push((name, stop));
    };
    // Nobody is there but the first: it gets as far as its own part.
    start("workload", &mut alive);
    create(&client, &workload("web", 3, "serve")).await.expect("a workload");
    sleep(Duration::from_secs(120)).await;
    let counts = |state: &State| ["ReplicaSet", "Replica", "Binding"].map(|kind| state.count(kind));
    assert_eq!(counts(&world.state()), [1, 0, 0]);
    // The second goes on, and is killed as soon as its replicas are there.
    start("replica", &mut alive);
    until(&world, "replicas", |state| if state.count("Replica") == 3 { Ok(()) } else { Err(String::new()) })
        .await;
    alive.pop().expect("the replica controller").1.cancel();
    sleep(Duration::from_secs(120)).await;
    assert_eq!(counts(&world.state()), [1, 3, 0]);
    // The third does its part without the second.
    start("scheduler", &mut alive);
    until(&world, "they serve", |state| {
        let stages =
            state.of_kind("Replica").filter(|it| it.status["stage"] == serde_json::json!(Stage::Serving));
        if stages.count() == 3 { Ok(()) } else { Err(format!("{:?}", counts(state))) }
    })
    .await;
    // What the workload says is known only through the second.
    assert!(serves(&world.state(), "web").is_err(), "nobody has told of it");
    start("replica", &mut alive);
    until(&world, "all of it is told", |state| serves(state, "web")).await;
    assert_eq!(counts(&world.state()), [1, 3, 3]);
    let parts = PROGRAMS.map(|name| written_by(&world, name).into_iter().collect::<Vec<_>>().join(","));
    assert_eq!(parts, ["ReplicaSet", "Replica", "Binding"], "who made what");
    nothing_is_left(&world.state()).expect("nothing is left");
    audit(&world.history()).expect("everything holds at every revision");
}

/// One of the programs goes through every fault, the others are well.
fn faulty(name: &'static str) -> Scenario {
    let fleet = Fleet::default();
    let scenario = Scenario::new(move |client, stop| program(name, client, stop))
        .setup(move |client| {
            let fleet = fleet.clone();
            async move {
                hosts(&client, &fleet).await?;
                for other in PROGRAMS.into_iter().filter(|it| *it != name) {
                    tokio::spawn(program(other, client.clone(), CancellationToken::new()));
                }
                tokio::spawn(run("garbage-collector,binding", client.clone(), CancellationToken::new()));
                create(&client, &workload("web", 3, "serve")).await
            }
        })
        .step("another revision", |client| async move {
            super::rollouts::patch(client, "web", serde_json::json!({"template": {"command": ["again"]}}))
                .await
        })
        .converged(|state| serves(state, "web"))
        .may_differ(forget_the_way)
        // The other programs keep what they know of themselves.
        .may_write(|change| change.key.kind == "Lease");
    let places_max = if is_deep() { 12 } else { 2 };
    watched(scenario).limits(Limits {
        places_max,
        drawn: 1,
        settling: Duration::from_secs(60),
        quiet: Duration::from_secs(120),
        ..Limits::default()
    })
}

#[test]
fn whatever_happens_to_the_workload_controller_the_cascade_is_the_same() {
    sweep(&faulty("workload"));
}

#[test]
fn whatever_happens_to_the_replica_controller_the_cascade_is_the_same() {
    sweep(&faulty("replica"));
}

#[test]
fn whatever_happens_to_the_scheduler_the_cascade_is_the_same() {
    sweep(&faulty("scheduler"));
}
