//! The worked example of a lost replica: fraud-batch wants three, node-gpu-7 drops its heartbeat, and three events say so. One release, one
//! replacement, never a fourth live copy; and the weak controller, for which an event is an order, makes one for each.

use std::time::Duration;

use setpoint_client::{Client, Error, Typed, WatchEvent, WatchOptions, WriteOptions};
use setpoint_controllers::facts::Life;
use setpoint_testkit::{Limits, Moment, Problem, Scenario, State, replay};
use setpoint_types::kinds::{Binding, BindingState, Replica, ReplicaSpec, Workload};
use tokio_util::sync::CancellationToken;

use super::hands;
use super::repairs::{is_repaired, repair};
use super::rollouts::{create, patch, workload};
use super::rules::{lives, one_replacement, watched};

/// No more copies run, or may run, than were asked for.
fn no_fourth_copy(moment: &Moment) -> Result<(), String> {
    let Some(wanted) = moment.state.one::<Workload>("default", "fraud-batch") else { return Ok(()) };
    let lives = lives(&moment.state, "fraud-batch");
    let is_live = |life: Life| !matches!(life, Life::Lost | Life::Ended | Life::Stopping);
    let live = lives.iter().filter(|(life, _)| is_live(*life)).count();
    let grew = moment.changes.iter().any(|it| it.key.kind == "Replica" && it.before.is_none());
    match grew && live > wanted.spec.replicas as usize {
        true => Err(format!("{live} copies of fraud-batch")),
        false => Ok(()),
    }
}

#[test]
fn one_loss_is_one_replacement_and_never_a_fourth_copy() {
    let outcome = replay(&repair().invariant("no fourth copy", no_fourth_copy), "no faults");
    assert!(outcome.problem.is_none(), "{:?}\n{}", outcome.problem, outcome.tale());
}

/// Three who tell of one loss: the API, the node monitor and the quota controller.
async fn three_events(client: Client) -> Result<(), Error> {
    hands::lose_node(client.clone()).await?;
    for number in [1, 2] {
        touch(&client, number).await?;
    }
    Ok(())
}

/// Says the same of every binding again, in other words.
async fn touch(client: &Client, number: u32) -> Result<(), Error> {
    let bindings = client.api::<Binding>().namespace("default");
    for mut binding in bindings.list_all(&Default::default()).await?.0 {
        let mut status = binding.status.take().unwrap_or_default();
        if status.state == BindingState::Unknown {
            status.message = format!("told {number} times");
            binding.status = Some(status);
            bindings.update_status(&binding, &WriteOptions::default()).await?;
        }
    }
    Ok(())
}

/// An event is an order: whatever says that a replica is lost makes another one.
async fn weak(client: Client, stop: CancellationToken) {
    let obey = async {
        let bindings = client.api::<Binding>().all_namespaces();
        loop {
            let Ok(mut watch) = bindings.watch(&WatchOptions::default()).await else {
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            };
            while let Ok(Some(events)) = watch.next().await {
                for event in events {
                    if let WatchEvent::Added { object, .. } | WatchEvent::Modified { object, .. } = event
                        && object.status.as_ref().is_some_and(|it| it.state == BindingState::Unknown)
                    {
                        replace(&client, &object).await.ok();
                    }
                }
            }
        }
    };
    stop.run_until_cancelled(obey).await;
}

async fn replace(client: &Client, lost: &Typed<Binding>) -> Result<(), Error> {
    let api = client.api::<Replica>().namespace("default");
    let old = api.get(&lost.spec.replica).await?;
    let spec = ReplicaSpec { replaces: Some(lost.metadata.name.clone()), ..old.spec };
    let mut replica = Typed::<Replica>::new("", spec).in_namespace("default");
    replica.metadata.generate_name = "fraud-batch-".to_owned();
    api.create(&replica, &WriteOptions::default()).await.map(drop)
}

/// Three replicas that nobody keeps but the one under test.
async fn three_replicas(client: Client) -> Result<(), Error> {
    hands::hire(&client);
    create(client.clone(), workload("fraud-batch", 3, "score")).await?;
    for slot in 0..3 {
        let template = workload("fraud-batch", 3, "score").spec.template;
        let spec = ReplicaSpec { workload: "fraud-batch".to_owned(), template, ..ReplicaSpec::default() };
        let replica = Typed::<Replica>::new(format!("fraud-batch-{slot}"), spec).in_namespace("default");
        client.api::<Replica>().create(&replica, &WriteOptions::default()).await?;
    }
    Ok(())
}

fn three_serve(state: &State) -> Result<(), String> {
    let serving = lives(state, "fraud-batch").iter().filter(|(life, _)| *life == Life::Available).count();
    if serving >= 3 { Ok(()) } else { Err(format!("{serving} serve")) }
}

#[test]
fn a_controller_that_obeys_events_makes_one_for_each() {
    let weak = |invariant: &str, check: fn(&Moment) -> Result<(), String>| {
        Scenario::new(weak)
            .setup(three_replicas)
            .step("three events of one loss", three_events)
            .converged(three_serve)
            .invariant(invariant, check)
            .limits(Limits { quiet: Duration::from_secs(60), ..Limits::default() })
    };
    for scenario in [weak("one replacement", one_replacement), weak("no fourth copy", no_fourth_copy)] {
        let problem = replay(&scenario, "no faults").problem;
        assert!(matches!(problem, Some(Problem::Broken { .. })), "the weak one passes: {problem:?}");
    }
}

/// The same three events, and the strong one.
#[test]
fn three_events_of_one_loss_are_one_repair() {
    let scenario =
        Scenario::new(|client, stop| super::run("workload,replica,binding,garbage-collector", client, stop))
            .setup(|client| async move {
                hands::hire(&client);
                create(client, workload("fraud-batch", 3, "score")).await
            })
            .step("three events of one loss", three_events)
            .step("nothing is different afterwards", |client| {
                patch(client, "fraud-batch", serde_json::json!({"replicas": 3}))
            })
            .converged(is_repaired)
            .invariant("K2: one replacement", one_replacement)
            .invariant("no fourth copy", no_fourth_copy);
    let outcome = replay(&watched(scenario), "no faults");
    assert!(outcome.problem.is_none(), "{:?}\n{}", outcome.problem, outcome.tale());
}
