//! Batches through every fault.

use serde_json::json;
use setpoint_client::Typed;
use setpoint_testkit::{Moment, Scenario, State, sweep};
use setpoint_types::kinds::{
    Batch, Replica, ReplicaTemplate, RestartBackoff, RestartPolicy, Workload, WorkloadSpec,
};
use setpoint_types::object::find_condition;

use super::rollouts::{create, forget_the_way, patch};
use super::rules::{generations_are_true, lives, watched};
use super::{hands, limits, run};

fn batch(command: &str, completions: u32, backoff_limit: u32) -> Typed<Workload> {
    let template = ReplicaTemplate {
        command: vec![command.to_owned()],
        restart_policy: RestartPolicy::Never,
        restart_backoff: RestartBackoff { initial_seconds: 5, ..RestartBackoff::default() },
        ..ReplicaTemplate::default()
    };
    let batch = Batch { completions, parallelism: 2, backoff_limit, ttl_seconds: None };
    let spec = WorkloadSpec { template, batch: Some(batch), ..WorkloadSpec::default() };
    Typed::<Workload>::new("sums", spec).in_namespace("default")
}

/// The condition says so, for this generation.
fn says(state: &State, kind: &str, reason: &str) -> Result<(), String> {
    let workload = state.one::<Workload>("default", "sums").ok_or("not there")?;
    let status = workload.status.unwrap_or_default();
    match find_condition(&status.conditions, kind) {
        Some(found)
            if found.reason == reason && found.observed_generation == workload.metadata.generation =>
        {
            Ok(())
        }
        found => Err(format!("{kind} is {found:?}, {:?}", status.replicas)),
    }
}

/// No completion is done twice, none has two attempts at a time, and no more run than may.
fn no_work_is_done_twice(moment: &Moment) -> Result<(), String> {
    let replicas = moment.state.all::<Replica>();
    let lives = lives(&moment.state, "sums");
    for change in moment.changes.iter().filter(|it| it.key.kind == "Replica" && it.before.is_none()) {
        let Some(made) = replicas.iter().find(|it| it.metadata.name == change.key.name) else { continue };
        let of_index = |name: &str| {
            replicas
                .iter()
                .any(|it| it.metadata.name == name && it.spec.completion_index == made.spec.completion_index)
        };
        let open =
            lives.iter().filter(|(_, it)| of_index(&it.name) && (!it.has_ended() || !it.is_released()));
        let done = lives
            .iter()
            .any(|(_, it)| of_index(&it.name) && it.status.stage == setpoint_types::kinds::Stage::Succeeded);
        let (open, running) = (open.count(), lives.iter().filter(|(_, it)| !it.has_ended()).count());
        if done || open > 1 || running > 2 {
            return Err(format!("{}: done {done}, {open} open, {running} run", change.key.name));
        }
    }
    Ok(())
}

#[test]
fn every_completion_succeeds_once() {
    let scenario = Scenario::new(|client, stop| run("batch", client, stop))
        .setup(|client| async move {
            hands::hire(&client);
            create(client, batch(hands::FAILS_ONCE, 3, 6)).await
        })
        .converged(|state| says(state, "Complete", "AllSucceeded"))
        .invariant("K5: once", no_work_is_done_twice)
        .invariant("K4: generations", generations_are_true)
        .may_differ(forget_the_way)
        .limits(limits(2));
    sweep(&watched(scenario));
}

#[test]
fn too_many_failures_end_it_until_more_are_allowed() {
    let converged = |state: &State| -> Result<(), String> {
        let workload = state.one::<Workload>("default", "sums").ok_or("not there")?;
        match workload.spec.template.command.first().map(String::as_str) {
            Some(hands::FAILS) => says(state, "Failed", "BackoffLimitExceeded"),
            _ => says(state, "Complete", "AllSucceeded"),
        }
    };
    let scenario = Scenario::new(|client, stop| run("batch", client, stop))
        .setup(|client| async move {
            hands::hire(&client);
            create(client, batch(hands::FAILS, 2, 1)).await
        })
        .step("it is mended", |client| {
            let mended = json!({"batch": {"backoffLimit": 9}, "template": {"command": [hands::SUCCEEDS]}});
            patch(client, "sums", mended)
        })
        .converged(converged)
        .invariant("K5: once", no_work_is_done_twice)
        .may_differ(forget_the_way)
        .limits(limits(2));
    sweep(&watched(scenario));
}
