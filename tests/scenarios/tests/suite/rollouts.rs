//! Rollouts through every fault.

use serde_json::json;
use setpoint_client::{Client, Error, Patch, PatchOptions, Typed, WriteOptions};
use setpoint_testkit::{Scenario, State, sweep};
use setpoint_types::kinds::{ReplicaTemplate, Rollout, Workload, WorkloadSpec};
use setpoint_types::quantity::CountOrPercent::Count;

use super::rules::{generations_are_true, serves, watched};
use super::{hands, limits, run};

pub fn workload(name: &str, replicas: u32, command: &str) -> Typed<Workload> {
    let template = ReplicaTemplate { command: vec![command.to_owned()], ..ReplicaTemplate::default() };
    let rollout = Rollout { max_surge: Count(1), max_unavailable: Count(1), ..Rollout::default() };
    let spec = WorkloadSpec { replicas, template, rollout, ..WorkloadSpec::default() };
    Typed::<Workload>::new(name, spec).in_namespace("default")
}

pub async fn create(client: Client, workload: Typed<Workload>) -> Result<(), Error> {
    client.api::<Workload>().create(&workload, &WriteOptions::default()).await.map(drop)
}

pub async fn patch(client: Client, name: &str, spec: serde_json::Value) -> Result<(), Error> {
    let patch = Patch::Merge(json!({"spec": spec}));
    client.api::<Workload>().patch(name, &patch, &PatchOptions::default()).await.map(drop)
}

fn web_serves(state: &State) -> Result<(), String> {
    serves(state, "web")
}

/// What a fault may change of the end: what was tried how often, and which slots were free when a replica was made.
pub fn forget_the_way(object: &mut setpoint_types::Object) -> bool {
    if let Some(status) = object.status.as_object_mut() {
        for told in ["lastAction", "lastError", "conditions"] {
            status.remove(told);
        }
    }
    // Replicas and bindings are counted by what is converged; their names depend on who came first.
    !matches!(object.kind.as_str(), "Replica" | "Binding")
}

fn rollout() -> Scenario {
    let scenario = Scenario::new(|client, stop| run("workload,replica,garbage-collector", client, stop))
        .setup(|client| async move {
            hands::hire(&client);
            create(client, workload("web", 3, "one")).await
        })
        .step("a new revision", |client| patch(client, "web", json!({"template": {"command": ["two"]}})))
        .step("more of it", |client| patch(client, "web", json!({"replicas": 5})))
        .step("back, and fewer", |client| {
            patch(client, "web", json!({"replicas": 2, "template": {"command": ["one"]}}))
        })
        .converged(web_serves)
        .invariant("K4: generations", generations_are_true)
        .may_differ(forget_the_way);
    watched(scenario)
}

#[test]
fn revisions_are_rolled_out_within_their_limits() {
    sweep(&rollout().limits(limits(1)));
}

#[test]
fn two_leaders_roll_out_as_one() {
    // A process that was cut off for long announces itself when it is back.
    sweep(&rollout().replicas(2).may_write(|change| change.key.kind == "Lease").limits(limits(1)));
}

/// A revision that never becomes ready is given up by itself.
#[test]
fn a_broken_revision_is_rolled_back() {
    let converged = |state: &State| -> Result<(), String> {
        let Some(workload) = state.one::<Workload>("default", "web") else { return Err("not there".into()) };
        if workload.spec.template.command == ["one"] {
            return serves(state, "web");
        }
        let status = workload.status.unwrap_or_default();
        let phase = status.rollout.phase;
        let is_back =
            phase == setpoint_types::kinds::RolloutPhase::RolledBack && status.replicas.available == 3;
        if is_back { Ok(()) } else { Err(format!("it is {phase:?}")) }
    };
    let scenario = Scenario::new(|client, stop| run("workload,replica", client, stop))
        .setup(|client| async move {
            hands::hire(&client);
            create(client, workload("web", 3, "one")).await
        })
        .step("a broken revision", |client| {
            patch(client, "web", json!({"template": {"command": [hands::BROKEN]}}))
        })
        .converged(converged)
        .may_differ(forget_the_way)
        .limits(limits(1));
    sweep(&watched(scenario));
}
