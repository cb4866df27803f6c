//! A leader that is frozen in the middle of its work for longer than its lease lasts: what it had sent is refused, by the epoch it carries (F2).
//! That anything was refused is a part of the check. Nobody stands by, for then the revisions that it names would refuse it, too; two
//! leaders are in the sweeps.

use std::time::Duration;

use serde_json::json;
use setpoint_testkit::{At, Fault, Faults, Plan, World};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::hands;
use super::rollouts::{create, patch, workload};
use super::rules::{audit, serves};
use super::whole::until;

/// A workload that is as it should be, and a leader with these faults.
async fn led(plan: &Plan) -> (World, Faults) {
    let world = World::new();
    let client = world.client_as("author");
    hands::hire(&client);
    let faults = Faults::new(&world, plan);
    let first = faults.process("controller");
    tokio::spawn(super::run("workload,replica", first.client(), CancellationToken::new()));
    create(client, workload("web", 3, "one")).await.expect("a workload");
    until(&world, "three serve", |state| serves(state, "web")).await;
    sleep(Duration::from_secs(60)).await;
    (world, faults)
}

#[tokio::test(start_paused = true)]
async fn what_a_deposed_leader_had_on_its_way_is_refused() {
    let before = led(&Plan::default()).await.1.counts().writes;
    // Its next write is on its way for longer than its lease lasts.
    let frozen = Plan::one(Fault::Freeze(Duration::from_secs(60)), At::Write(before + 1));
    let (world, _) = led(&frozen).await;
    patch(world.client_as("author"), "web", json!({"replicas": 5})).await.expect("a number");
    sleep(Duration::from_secs(120)).await;
    until(&world, "five serve", |state| serves(state, "web")).await;
    audit(&world.history()).expect("everything holds at every revision");
    assert!(world.fenced() > 0, "nothing stale was ever sent, so nothing was shown");
}
