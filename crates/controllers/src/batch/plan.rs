//! What is to be done about one batch: pure, from the workload and its replicas.
//!
//! Replicas that are over are kept until the batch is deleted: they are what its counts are made from, so that nothing has to be
//! remembered anywhere else.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use setpoint_runtime::conditions::{Conditions, Statement};
use setpoint_types::Timestamp;
use setpoint_types::kinds::{
    Batch, DeadlineState, DeadlineStatus, FailureCount, ReplicaSpec, RolloutPhase, RolloutStatus,
    WorkloadStatus,
};

use super::attempts::{Completion, completions, counted, failures};
use super::observe::Observed;
use crate::facts::{Life, ReplicaFacts};
use crate::replica::{counts, pending, victims};
use crate::workload::short_name;

/// Replicas that one run makes at most: beyond that it looks again first.
const CHANGES_MAX: usize = 1_000;

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    pub create: Vec<NewAttempt>,
    /// Replicas that go: there are too many at a time, or the batch is over.
    pub delete: Vec<String>,
    /// The batch has been over for as long as it is kept.
    pub expire: bool,
    pub status: WorkloadStatus,
    /// When something is due though nothing changes.
    #[serde(skip)]
    pub again_after: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewAttempt {
    pub name: String,
    pub index: u32,
    pub attempt: u32,
    pub replaces: Option<String>,
}

/// How a batch stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Running,
    Complete,
    Failed { reason: &'static str, message: String },
}

pub fn plan(observed: &Observed) -> Plan {
    let (spec, now) = (&observed.workload.spec, observed.now);
    let Some(batch) = &spec.batch else { return Plan::default() };
    let lives: Vec<_> = observed.replicas.iter().map(|it| (it.life(0, now), it)).collect();
    let before = observed.workload.status.clone().unwrap_or_default();
    let known = completions(&lives, &spec.template.restart_backoff, now);
    let failures = failures(&lives);
    let done = known.values().filter(|it| **it == Completion::Done).count() as u32;
    let deadline = deadline(observed, &before, done >= batch.completions);
    let verdict = verdict(batch, done, &failures, deadline.as_ref());
    let mut plan = Plan { status: status(observed, batch, &before, &lives), ..Plan::default() };
    plan.status.failures = failures;
    plan.status.deadline = deadline;
    let mut times = Vec::new();
    match &verdict {
        Verdict::Running => run(&mut plan, observed, batch, &lives, &known, &mut times),
        Verdict::Complete | Verdict::Failed { .. } => {
            let finished = before.finished.unwrap_or(now);
            plan.status.finished = Some(finished);
            plan.delete = going(&lives, lives.len());
            if let Some(ttl) = batch.ttl_seconds {
                let until = Timestamp(finished.0 + u64::from(ttl) * 1000);
                plan.expire = now >= until;
                times.push(until);
            }
        }
    }
    say(&mut plan.status, observed, batch, &verdict);
    let running = plan.status.deadline.as_ref().filter(|it| it.state == DeadlineState::Running);
    times.extend(running.map(|it| it.time));
    let next = times.into_iter().filter(|time| *time > now).min();
    plan.again_after = next.map(|time| Duration::from_millis(time.0 - now.0));
    plan
}

/// More attempts as long as fewer run than may, fewer where more do.
fn run(
    plan: &mut Plan,
    observed: &Observed,
    batch: &Batch,
    lives: &[(Life, &ReplicaFacts)],
    known: &BTreeMap<u32, Completion>,
    times: &mut Vec<Timestamp>,
) {
    let active = lives.iter().filter(|(life, it)| is_active(*life, it)).count();
    let may_run = batch.parallelism as usize;
    plan.delete = going(lives, active.saturating_sub(may_run));
    if observed.priority.is_none() {
        return;
    }
    let room = may_run.saturating_sub(active).min(CHANGES_MAX);
    let begin = short_name(&observed.workload.metadata.name);
    for index in 0..batch.completions {
        let (attempt, replaces) = match known.get(&index) {
            None => (0, None),
            Some(Completion::Open { attempt, replaces }) => (*attempt, replaces.clone()),
            Some(Completion::Waits { until }) => {
                times.push(*until);
                continue;
            }
            Some(Completion::Done | Completion::Active) => continue,
        };
        if plan.create.len() < room {
            plan.create.push(NewAttempt {
                name: format!("{begin}-{index}-{attempt}"),
                index,
                attempt,
                replaces,
            });
        }
    }
}

/// It runs or may run: it takes a place of those that may.
fn is_active(life: Life, replica: &ReplicaFacts) -> bool {
    match life {
        Life::Lost => false,
        Life::Ended => !replica.is_released(),
        _ => true,
    }
}

/// So many of those that are under way and not going yet.
fn going(lives: &[(Life, &ReplicaFacts)], count: usize) -> Vec<String> {
    let is_running = |life: Life| !matches!(life, Life::Lost | Life::Ended | Life::Stopping);
    let running: Vec<_> = lives.iter().copied().filter(|(life, _)| is_running(*life)).collect();
    let stopping = lives.iter().filter(|(life, _)| *life == Life::Stopping).count();
    victims(&running, count.saturating_sub(stopping).min(running.len()))
}

fn verdict(
    batch: &Batch,
    done: u32,
    failures: &[FailureCount],
    deadline: Option<&DeadlineStatus>,
) -> Verdict {
    let failed = counted(failures);
    if done >= batch.completions {
        Verdict::Complete
    } else if failed > batch.backoff_limit {
        let message = format!("{failed} replicas failed, {} may", batch.backoff_limit);
        Verdict::Failed { reason: "BackoffLimitExceeded", message }
    } else if deadline.is_some_and(|it| it.state == DeadlineState::Exceeded) {
        let message = format!("{done} of {} were done when its deadline passed", batch.completions);
        Verdict::Failed { reason: "DeadlineExceeded", message }
    } else {
        Verdict::Running
    }
}

/// Begins anew with every change of the spec; once kept or missed, that stays so.
fn deadline(observed: &Observed, before: &WorkloadStatus, is_done: bool) -> Option<DeadlineStatus> {
    let workload = &observed.workload;
    crate::deadline::judge(
        &workload.metadata,
        workload.spec.deadline_seconds,
        before.deadline.as_ref().filter(|_| before.observed_generation == workload.metadata.generation),
        is_done,
        observed.now,
    )
}

fn status(
    observed: &Observed,
    batch: &Batch,
    before: &WorkloadStatus,
    lives: &[(Life, &ReplicaFacts)],
) -> WorkloadStatus {
    WorkloadStatus {
        observed_generation: observed.workload.metadata.generation,
        replicas: counts(batch.completions, lives),
        pending_reasons: pending(lives),
        rollout: RolloutStatus { phase: RolloutPhase::Complete, ..RolloutStatus::default() },
        last_action: before.last_action.clone(),
        last_error: before.last_error.clone(),
        conditions: before.conditions.clone(),
        ..WorkloadStatus::default()
    }
}

fn say(status: &mut WorkloadStatus, observed: &Observed, batch: &Batch, verdict: &Verdict) {
    let generation = observed.workload.metadata.generation;
    let mut conditions = Conditions::of(&mut status.conditions, generation, observed.now);
    let class = &observed.workload.spec.template.priority_class;
    let complete = match verdict {
        Verdict::Complete => Statement::holds("Complete", "AllSucceeded"),
        Verdict::Failed { reason, message } => Statement::fails("Complete", *reason).message(message.clone()),
        Verdict::Running if batch.parallelism == 0 => {
            Statement::fails("Complete", "Suspended").message("its parallelism is 0")
        }
        Verdict::Running if observed.priority.is_none() => {
            let class = class.as_deref().unwrap_or_default();
            Statement::fails("Complete", "NoPriorityClass").message(format!(
                "there is no PriorityClass {class}: make one, or name another in the template"
            ))
        }
        Verdict::Running => Statement::fails("Complete", "Running"),
    };
    conditions.set(complete);
    match verdict {
        Verdict::Failed { reason, message } => {
            conditions.set(Statement::holds("Failed", *reason).message(message.clone()));
        }
        _ => drop(conditions.remove("Failed")),
    }
}

/// What a new attempt is.
pub fn spec_of(observed: &Observed, new: &NewAttempt, deadline: Option<Timestamp>) -> ReplicaSpec {
    let workload = &observed.workload;
    ReplicaSpec {
        workload: workload.metadata.name.clone(),
        replica_set: String::new(),
        revision: 0,
        template: workload.spec.template.clone(),
        priority: observed.priority.unwrap_or_default(),
        completion_index: Some(new.index),
        attempt: new.attempt,
        replaces: new.replaces.clone(),
        deadline,
    }
}
