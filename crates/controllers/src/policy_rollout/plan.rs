//! What becomes of one version of a placement policy: wait, step, complete, or go back. Pure.
//!
//! ```text
//! activated ──▶ gate good for the interval ──▶ more weight ──▶ … ──▶ 100, the version before inactive ──▶ good again ──▶ complete
//!                  │ cannot be told: hold                                │
//!                  └ failed ──▶ inactive, the version before active ◀────┘
//! ```

use std::cmp::Reverse;
use std::time::Duration;

use serde::Serialize;
use setpoint_client::Typed;
use setpoint_runtime::conditions::{Conditions, Statement};
use setpoint_types::kinds::{
    Activation, ObservedBy, PlacementPolicy, PlacementPolicySpec, PlacementPolicyStatus,
};
use setpoint_types::object::{Condition, ConditionStatus, find_condition};
use setpoint_types::{Revision, Timestamp};

use super::census::Census;
use super::gate::{Component, Verdict, judge};

/// What the gate says.
pub const GATE: &str = "Gate";
/// All replicas in scope are placed by it, and it was good for its interval.
pub const COMPLETE: &str = "Complete";
/// Its gate failed, and the version before it is back.
pub const ROLLED_BACK: &str = "RolledBack";

/// Everything the plan is made from.
#[derive(Clone, Debug)]
pub struct Observed {
    pub policy: Typed<PlacementPolicy>,
    /// The other versions of the same policy.
    pub others: Vec<Typed<PlacementPolicy>>,
    /// Those that the gate requires.
    pub components: Vec<Component>,
    pub census: Census,
    /// Bindings that name it.
    pub placed: u64,
    /// How far our own view of replicas has come.
    pub own: Revision,
    pub now: Timestamp,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    pub step: Step,
    /// What it shows, if the step is none: a step is followed by another look.
    pub status: PlacementPolicyStatus,
    pub next_ms: Option<u64>,
}

/// What changes in specs, all of it at one revision.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Step {
    None,
    /// More weight. At 100 all versions before it go.
    Raise {
        weight: u32,
        retire: Vec<String>,
        message: String,
    },
    /// This version goes, and the one before it comes back.
    RollBack {
        to: String,
        message: String,
    },
}

/// Decides.
pub fn plan(observed: &Observed, period: Duration) -> Plan {
    let policy = &observed.policy;
    let mut status = policy.status.clone().unwrap_or_default();
    let generation = policy.metadata.generation;
    let is_new = status.observed_generation != generation;
    status.observed_generation = generation;
    if policy.spec.activation != Activation::Active {
        if is_new && !status.activation_revision.is_none() {
            // What it took falls to others: whoever judges those has to know since when.
            status.activation_revision = policy.metadata.revision;
        }
        inactive(observed, &mut status);
        return Plan { step: Step::None, status, next_ms: None };
    }
    if is_new || status.activation_revision.is_none() {
        activated(observed, &mut status);
        // What is written wakes it again.
        return Plan { step: Step::None, status, next_ms: None };
    }
    if status.previous_version.is_empty() || is_complete(&status) {
        // Nothing is being rolled out.
        let is_alone = status.previous_version.is_empty();
        let mut conditions = Conditions::of(&mut status.conditions, generation, observed.now);
        conditions.remove(ROLLED_BACK);
        if is_alone {
            conditions.remove(GATE);
        }
        if policy.spec.weight == 100 {
            conditions.set(Statement::holds(COMPLETE, "AllReplicas"));
        }
        return Plan { step: Step::None, status, next_ms: None };
    }
    rolling(observed, status, period)
}

fn is_complete(status: &PlacementPolicyStatus) -> bool {
    let complete = find_condition(&status.conditions, COMPLETE);
    complete.is_some_and(|it| {
        it.status == ConditionStatus::True && it.observed_generation == status.observed_generation
    })
}

/// It is not in force. If that is because its gate failed, it says so.
fn inactive(observed: &Observed, status: &mut PlacementPolicyStatus) {
    let failed = find_condition(&status.conditions, GATE).filter(|it| it.status == ConditionStatus::False);
    let message = failed.map(|gate| gate.message.clone());
    let mut conditions =
        Conditions::of(&mut status.conditions, observed.policy.metadata.generation, observed.now);
    conditions.remove(GATE);
    conditions.remove(COMPLETE);
    if let Some(message) = message {
        conditions.set(Statement::holds(ROLLED_BACK, "GateFailed").message(message));
    }
}

/// It came into force, or its weight, scope or gate changed: everybody has to see that anew.
fn activated(observed: &Observed, status: &mut PlacementPolicyStatus) {
    let metadata = &observed.policy.metadata;
    status.activation_revision = metadata.revision;
    status.activated = Some(observed.now);
    status.observed_by = Vec::new();
    match heaviest(observed) {
        Some(before) => status.previous_version.clone_from(&before.spec.version),
        // On its way it has replaced that one. Not on its way, it came back alone, and there is nothing to go back to.
        None if find_condition(&status.conditions, GATE).is_some() => {}
        None => status.previous_version.clear(),
    }
    let mut conditions = Conditions::of(&mut status.conditions, metadata.generation, observed.now);
    conditions.remove(ROLLED_BACK);
    conditions.remove(COMPLETE);
    conditions.set(Statement::unknown(GATE, "Activated").message("nobody was asked yet"));
}

fn rolling(observed: &Observed, mut status: PlacementPolicyStatus, period: Duration) -> Plan {
    let PlacementPolicySpec { gate, weight, .. } = &observed.policy.spec;
    let (generation, now) = (observed.policy.metadata.generation, observed.now);
    let activation = settled(observed);
    let verdict = judge(gate, activation, &observed.components, &observed.census, observed.own);
    status.observed_by = observed_by(observed, &status.observed_by, activation);
    (status.placed, status.pending) = (observed.placed, pending(&observed.census));
    let mut conditions = Conditions::of(&mut status.conditions, generation, now);
    conditions.set(match &verdict {
        Verdict::Good => Statement::holds(GATE, "Satisfied"),
        Verdict::Inconclusive(reason, why) => Statement::unknown(GATE, *reason).message(why.clone()),
        Verdict::Failed(why) => Statement::fails(GATE, "PendingRegressed").message(why.clone()),
    });
    let since = conditions.find(GATE).map_or(now, |it: &Condition| it.last_transition);
    let interval = Duration::from_secs(gate.interval_seconds.into());
    let mut plan = Plan { step: Step::None, status, next_ms: Some(millis(period)) };
    match verdict {
        Verdict::Failed(message) if gate.auto_rollback => {
            if let Some(before) = before(observed, &plan.status) {
                plan.step = Step::RollBack { to: before.metadata.name.clone(), message };
            }
        }
        Verdict::Failed(_) | Verdict::Inconclusive(..) => {}
        Verdict::Good if now.since(since) < interval => {
            plan.next_ms = Some(millis((interval - now.since(since)).min(period)));
        }
        Verdict::Good if *weight >= 100 => {
            let mut conditions = Conditions::of(&mut plan.status.conditions, generation, now);
            conditions.set(Statement::holds(COMPLETE, "AllReplicas"));
            plan.next_ms = None;
        }
        Verdict::Good if gate.step > 0 => {
            let weight = weight.saturating_add(gate.step).min(100);
            let retire = older(observed).filter(|it| weight == 100 && is_active(it));
            let retire = retire.map(|it| it.metadata.name.clone()).collect();
            let message = format!("from {} to {weight} percent", observed.policy.spec.weight);
            plan.step = Step::Raise { weight, retire, message };
        }
        // Only by hand.
        Verdict::Good => {}
    }
    plan
}

/// Whether schedulers ask the one before the other: what was made later is newer, and of one moment what is named first.
fn is_newer(one: &Typed<PlacementPolicy>, other: &Typed<PlacementPolicy>) -> bool {
    let place = |it: &Typed<PlacementPolicy>| (Reverse(it.metadata.created), it.metadata.name.clone());
    place(one) < place(other)
}

fn is_active(version: &Typed<PlacementPolicy>) -> bool {
    version.spec.activation == Activation::Active
}

/// The versions that take their share before this one.
pub(super) fn newer(observed: &Observed) -> impl Iterator<Item = &Typed<PlacementPolicy>> {
    observed.others.iter().filter(|it| is_newer(it, &observed.policy))
}

/// Those that this one leaves the rest to.
fn older(observed: &Observed) -> impl Iterator<Item = &Typed<PlacementPolicy>> {
    observed.others.iter().filter(|it| !is_newer(it, &observed.policy))
}

/// Since when the version has the share that it has: since it was activated, or a newer one has taken or left some of it. What was seen
/// before that says nothing about it.
pub(super) fn settled(observed: &Observed) -> Revision {
    let own = observed.policy.status.as_ref().map(|it| it.activation_revision).unwrap_or_default();
    let changed = |it: &Typed<PlacementPolicy>| match &it.status {
        Some(status) if status.observed_generation == it.metadata.generation => status.activation_revision,
        // It was changed, and nobody has told of it yet.
        _ => it.metadata.revision,
    };
    newer(observed).map(changed).fold(own, Revision::max)
}

/// Of several older ones the one with the most weight is the one that the rest is placed by.
fn heaviest(observed: &Observed) -> Option<&Typed<PlacementPolicy>> {
    let active = older(observed).filter(|it| is_active(it));
    active.max_by_key(|it| (it.spec.weight, it.metadata.name.as_str()))
}

/// The version to go back to: the one that has the rest, else the one that had it. Another may have replaced that since, and then it is
/// not brought back.
fn before<'a>(observed: &'a Observed, status: &PlacementPolicyStatus) -> Option<&'a Typed<PlacementPolicy>> {
    heaviest(observed)
        .or_else(|| observed.others.iter().find(|it| it.spec.version == status.previous_version))
}

fn pending(census: &Census) -> u32 {
    u32::try_from(census.ours.pending + census.ours.undetermined).unwrap_or(u32::MAX)
}

/// Who has seen how much. As long as somebody stays on the same side of the activation, what was shown stays.
fn observed_by(observed: &Observed, shown: &[ObservedBy], activation: Revision) -> Vec<ObservedBy> {
    let slowest = |component: &Component| {
        let seen = component.witnesses.iter().map(|it| it.slowest.as_ref().map(|(_, revision)| *revision));
        seen.min().flatten().unwrap_or(Revision::NONE)
    };
    let line = |component: &Component| {
        let new = ObservedBy {
            component: component.name.clone(),
            revision: slowest(component),
            time: observed.now,
        };
        let old = shown.iter().find(|it| it.component == component.name);
        match old {
            Some(old) if (old.revision < activation) == (new.revision < activation) => old.clone(),
            _ => new,
        }
    };
    observed.components.iter().map(line).collect()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// The specs with the step made: this version's, and those of the others that change with it.
pub fn stepped(
    observed: &Observed,
    step: &Step,
) -> Option<(Typed<PlacementPolicy>, Vec<Typed<PlacementPolicy>>)> {
    let others = |names: &[String]| -> Vec<Typed<PlacementPolicy>> {
        observed.others.iter().filter(|it| names.contains(&it.metadata.name)).cloned().collect()
    };
    let mut policy = observed.policy.clone();
    match step {
        Step::None => None,
        Step::Raise { weight, retire, .. } => {
            policy.spec.weight = *weight;
            let mut retired = others(retire);
            retired.iter_mut().for_each(|it| it.spec.activation = Activation::Inactive);
            Some((policy, retired))
        }
        Step::RollBack { to, .. } => {
            policy.spec.activation = Activation::Inactive;
            let mut back = others(std::slice::from_ref(to));
            for it in &mut back {
                it.spec.activation = Activation::Active;
                it.spec.weight = 100;
            }
            Some((policy, back))
        }
    }
}
