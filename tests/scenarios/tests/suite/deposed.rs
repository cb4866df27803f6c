//! A leader that is frozen in the middle of its work, and wakes up when another leads: what it had sent is refused, by the epoch it carries
//! (F2). That anything was refused is a part of the check.

use std::time::Duration;

use serde_json::json;
use setpoint_testkit::{Fault, Faults, Plan, World};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::hands;
use super::rollouts::{create, patch, workload};
use super::rules::{audit, serves};
use super::whole::until;

#[tokio::test(start_paused = true)]
async fn what_a_deposed_leader_had_on_its_way_is_refused() {
    let world = World::new();
    let client = world.client_as("author");
    hands::hire(&client);
    let faults = Faults::new(&world, &Plan::default());
    let first = faults.process("controller");
    tokio::spawn(super::run("workload,replica", first.client(), CancellationToken::new()));
    create(client.clone(), workload("web", 3, "one")).await.expect("a workload");
    until(&world, "three serve", |state| serves(state, "web")).await;
    tokio::spawn(super::run("workload,replica", world.client_as("standby-1"), CancellationToken::new()));
    sleep(Duration::from_secs(30)).await;
    // What it decides now reaches the server when its leases are another's.
    for round in 1..=4 {
        patch(client.clone(), "web", json!({"replicas": 3 + round})).await.expect("a number");
        faults.inject(Fault::Freeze(Duration::from_secs(60)));
        sleep(Duration::from_secs(120)).await;
    }
    until(&world, "seven serve", |state| serves(state, "web")).await;
    audit(&world.history()).expect("everything holds at every revision");
    assert!(world.fenced() > 0, "nothing stale was ever sent, so nothing was shown");
}
