//! Why something was done is written down at the revision at which it was done, by everybody who decides; and only then.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use setpoint_testkit::{History, World};
use setpoint_types::kinds::{DecisionSpec, Node};
use tokio::time::sleep;

use super::fleet::{Fleet, Shape};
use super::hands;
use super::rollouts::patch;
use super::rules::{audit, serves};
use super::whole::{create, start_everybody, until, workload};

/// Who decided what, of decisions that had an effect; each of them was committed with it.
fn decided(history: &History) -> BTreeSet<(String, String)> {
    let mut all = BTreeSet::new();
    for entry in history.entries() {
        let records = entry.changes.iter().filter(|it| it.key.kind == "Decision" && it.before.is_none());
        for record in records {
            let spec = record.after.as_ref().map(|it| it.spec.clone()).expect("it was made");
            let spec: DecisionSpec = serde_json::from_value(spec).expect("a decision");
            if spec.operation.is_empty() {
                continue;
            }
            let has_effect =
                entry.changes.iter().any(|it| it.key.kind != "Decision") || !entry.reservations.is_empty();
            assert!(has_effect, "{} by {} stands alone", spec.action, spec.component);
            all.insert((spec.component, spec.action));
        }
    }
    all
}

#[tokio::test(start_paused = true)]
async fn whoever_decides_says_why_with_what_it_does() {
    let (world, fleet) = (World::new(), Fleet::default());
    let client = world.client_as("author");
    fleet.begin(&client).await.expect("a namespace");
    for (name, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
        fleet.add(Shape::new(name, zone, 4_000));
    }
    start_everybody(&world);
    create(&client, &workload("web", 3, "one")).await.expect("a workload");
    until(&world, "three serve", |state| serves(state, "web")).await;
    patch(client.clone(), "web", json!({"replicas": 4})).await.expect("a number");
    until(&world, "four serve", |state| serves(state, "web")).await;
    patch(client.clone(), "web", json!({"template": {"command": ["two"]}})).await.expect("a revision");
    until(&world, "the second serves", |state| serves(state, "web")).await;
    let broken = json!({
        "template": {"command": [hands::BROKEN]},
        "rollout": {"progressDeadlineSeconds": 60, "autoRollback": true},
    });
    patch(client.clone(), "web", broken).await.expect("a revision");
    until(&world, "it is taken back", |state| {
        let phase = state.of_kind("Workload").next().map(|it| it.status["rollout"]["phase"].clone());
        if phase == Some(json!("RolledBack")) { Ok(()) } else { Err(format!("{phase:?}")) }
    })
    .await;
    patch(client.clone(), "web", json!({"template": {"command": ["three"]}})).await.expect("a revision");
    until(&world, "the third serves", |state| serves(state, "web")).await;
    let busiest = busiest(&world);
    fleet.crash(&busiest);
    until(&world, "the loss is made good", |state| {
        let lost = state.of_kind("Replica").any(|it| it.status["node"] == json!(busiest));
        if lost { Err("not yet".to_owned()) } else { serves(state, "web") }
    })
    .await;
    fleet.heal(&busiest);
    until(&world, "it is back", |state| {
        let node = state.one::<Node>("", &busiest).ok_or("no node")?;
        if node.spec.taints.is_empty() { Ok(()) } else { Err(format!("{:?}", node.spec.taints)) }
    })
    .await;
    let drained = self::busiest(&world);
    super::operations::stage::edit(&client, "Node", &drained, json!({"unschedulable": true, "drain": true}))
        .await
        .expect("a drain");
    until(&world, "it is empty", |state| {
        let left = state.of_kind("Replica").any(|it| it.status["node"] == json!(drained));
        if left { Err("not yet".to_owned()) } else { serves(state, "web") }
    })
    .await;
    let history = world.history();
    let found = decided(&history);
    let wanted = [
        ("workload", "Scale"),
        ("workload", "RolloutStep"),
        ("workload", "RollBack"),
        ("replica", "Replace"),
        ("binding", "Release"),
        ("node-monitor", "GiveUp"),
        ("node-monitor", "Taint"),
        ("node-monitor", "Untaint"),
        ("node-monitor", "Drain"),
    ];
    for (component, action) in wanted {
        let is_there = found.iter().any(|(who, what)| who.ends_with(component) && what == action);
        assert!(is_there, "{component} has not told of a {action}: {found:?}");
    }
    audit(&history).expect("everything holds at every revision");
    let before = world.state().count("Decision");
    sleep(Duration::from_secs(600)).await;
    assert_eq!(world.state().count("Decision"), before, "the steady state decides nothing");
}

/// The node with the most replicas.
fn busiest(world: &World) -> String {
    let state = world.state();
    let nodes = state.all::<Node>();
    let on = |name: &str| state.of_kind("Replica").filter(|it| it.status["node"] == json!(name)).count();
    let busiest = nodes.iter().max_by_key(|it| on(&it.metadata.name)).expect("nodes");
    busiest.metadata.name.clone()
}
