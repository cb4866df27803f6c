//! The repair of what was lost with its node, through every fault: within the grace nothing is replaced, after it everything once.

use serde_json::json;
use setpoint_client::{Client, Error};
use setpoint_testkit::{Moment, Scenario, State, sweep};
use setpoint_types::kinds::{Binding, BindingState, Workload};
use setpoint_types::object::{ConditionStatus, find_condition};

use super::rollouts::{create, forget_the_way, patch, workload};
use super::rules::{generations_are_true, serves, watched};
use super::{hands, limits, run};

/// Three serve, none is lost, and the workload says so.
pub fn is_repaired(state: &State) -> Result<(), String> {
    serves(state, "fraud-batch")?;
    let unknown = state
        .all::<Binding>()
        .into_iter()
        .find(|it| it.status.as_ref().is_some_and(|status| status.state != BindingState::Bound));
    if let Some(unknown) = unknown {
        return Err(format!("{} is {:?}", unknown.metadata.name, unknown.status));
    }
    let workload = state.one::<Workload>("default", "fraud-batch").ok_or("not there")?;
    let status = workload.status.unwrap_or_default();
    match find_condition(&status.conditions, "Repaired") {
        Some(it)
            if it.status == ConditionStatus::True
                && it.observed_generation == workload.metadata.generation =>
        {
            Ok(())
        }
        other => Err(format!("it says {other:?}")),
    }
}

/// A release is asked for only of what is unknown and whose grace is over.
fn grace_is_kept(moment: &Moment) -> Result<(), String> {
    for change in moment.changes.iter().filter(|it| it.key.kind == "Binding") {
        let (Some(before), Some(after)) = (&change.before, &change.after) else { continue };
        let (was, is) = (&before.status, &after.status);
        if is["state"] == json!("ReleaseRequested") && was["state"] != is["state"] {
            let grace = was["graceUntilMs"].as_u64().unwrap_or(0);
            if was["state"] != json!("Unknown") || change.author.time.0 < grace {
                return Err(format!("{}: {was} → {is}", change.key));
            }
        }
    }
    Ok(())
}

async fn lose_node(client: Client) -> Result<(), Error> {
    hands::lose_node(client).await
}

pub fn repair() -> Scenario {
    let scenario =
        Scenario::new(|client, stop| run("workload,replica,binding,garbage-collector", client, stop))
            .setup(|client| async move {
                hands::hire(&client);
                create(client, workload("fraud-batch", 3, "score")).await
            })
            .step("node-gpu-7 drops its heartbeat", lose_node)
            .step("and another one while it is scaled", |client| async move {
                hands::lose_node(client.clone()).await?;
                patch(client, "fraud-batch", json!({"replicas": 2})).await
            })
            .converged(is_repaired)
            .invariant("K3: grace", grace_is_kept)
            .invariant("K4: generations", generations_are_true)
            .may_differ(forget_the_way);
    watched(scenario)
}

#[test]
fn every_loss_is_made_good_once() {
    sweep(&repair().limits(limits(1)));
}

#[test]
fn two_leaders_repair_as_one() {
    // A process that was cut off for long announces itself when it is back.
    sweep(&repair().replicas(2).may_write(|change| change.key.kind == "Lease").limits(limits(1)));
}
