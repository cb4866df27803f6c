//! What is to be done about one ReplicaSet: pure, from the set and its replicas with their bindings.
//!
//! A replica keeps its place in the number wanted while it may still run, or waits for its pause: what is out of reach is not replaced
//! before its node is given back. What is lost or over is replaced under a name that follows from the loss, and goes with the
//! write that makes the other.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;
use setpoint_types::Timestamp;
use setpoint_types::kinds::{ReplicaSetStatus, ReplicaSpec};

use super::names::{free_slots, replacement};
use super::observe::Observed;
use super::repair::{Due, due};
use super::status;
use super::victims::victims;
use crate::facts::{Life, ReplicaFacts};

/// Replicas that one run makes or deletes at most: beyond that it looks again first.
const CHANGES_MAX: usize = 1_000;

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// Replicas in free slots.
    pub create: Vec<NewReplica>,
    /// Those that make a loss good, each with the replica that goes for it.
    pub replace: Vec<Replacement>,
    /// Replicas that go.
    pub delete: Vec<Doomed>,
    pub status: ReplicaSetStatus,
    /// When something is due though nothing changes.
    #[serde(skip)]
    pub again_after: Option<Duration>,
}

/// What tells a new replica from its siblings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewReplica {
    pub name: String,
    pub attempt: u32,
    pub replaces: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replacement {
    pub new: NewReplica,
    /// The replica that was lost or is over.
    pub lost: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Doomed {
    pub name: String,
    /// It goes because of what was seen of it; should that have changed, others may be meant.
    pub unchanged: bool,
}

pub fn plan(observed: &Observed) -> Plan {
    let (spec, now) = (&observed.set.spec, observed.now);
    let lives: Vec<(Life, &ReplicaFacts)> = observed
        .replicas
        .iter()
        .map(|replica| (replica.life(spec.min_ready_seconds, now), replica))
        .collect();
    let sorted = Sorted::of(observed, &lives);
    let mut plan = Plan { status: status::status(observed, &lives), ..Plan::default() };
    let (desired, there) = (spec.replicas as usize, sorted.placed.len());
    let may_create = observed.priority.is_some() && spec.deadline.is_none_or(|deadline| now < deadline);
    let missing = if may_create { desired.saturating_sub(there) } else { 0 };
    sorted.replace(&mut plan, missing);
    let left = missing.saturating_sub(plan.replace.len()).min(CHANGES_MAX);
    plan.create = slots(observed, &plan, left);
    let too_many = there.saturating_sub(desired).min(CHANGES_MAX);
    plan.delete.extend(doomed(&sorted.placed, too_many));
    plan.again_after = again_after(observed, &sorted, &lives);
    plan
}

/// The replicas of a set, by whether they have a place in the number wanted.
struct Sorted<'a> {
    observed: &'a Observed,
    placed: Vec<(Life, &'a ReplicaFacts)>,
    /// Those that have none, and may be replaced now, with the number of the next attempt.
    over: Vec<(u32, &'a ReplicaFacts)>,
    /// When the first of those that wait may be replaced.
    next: Option<Timestamp>,
}

impl<'a> Sorted<'a> {
    fn of(observed: &'a Observed, lives: &[(Life, &'a ReplicaFacts)]) -> Self {
        let mut sorted = Self { observed, placed: Vec::new(), over: Vec::new(), next: None };
        let backoff = &observed.set.spec.template.restart_backoff;
        for (life, replica) in lives {
            if *life == Life::Stopping {
                continue;
            }
            match due(*life, replica, backoff, observed.now) {
                Due::Now { attempt } => sorted.over.push((attempt, replica)),
                Due::At(time) => {
                    sorted.next = Some(sorted.next.map_or(time, |next| next.min(time)));
                    sorted.placed.push((*life, replica));
                }
                Due::NotYet => sorted.placed.push((*life, replica)),
            }
        }
        sorted
    }

    /// Those that are over go: with their replacement as long as one is wanted, and without otherwise.
    fn replace(&self, plan: &mut Plan, mut missing: usize) {
        let set = &self.observed.set.metadata.name;
        let is_there = |name: &str| self.observed.replicas.iter().any(|it| it.name == name);
        for (attempt, lost) in self.over.iter().take(CHANGES_MAX) {
            let name = replacement(set, lost);
            // Whoever was asked to make it has: only the lost one is left over.
            if missing == 0 || is_there(&name) || self.observed.taken.contains(&name) {
                plan.delete.push(Doomed { name: lost.name.clone(), unchanged: false });
                continue;
            }
            missing -= 1;
            let replaces = lost.binding.as_ref().map(|binding| binding.name.clone());
            let new = NewReplica { name, attempt: *attempt, replaces };
            plan.replace.push(Replacement { new, lost: lost.name.clone() });
        }
    }
}

fn slots(observed: &Observed, plan: &Plan, count: usize) -> Vec<NewReplica> {
    let mut used: BTreeSet<&str> = observed.replicas.iter().map(|it| it.name.as_str()).collect();
    used.extend(observed.taken.iter().map(String::as_str));
    used.extend(plan.replace.iter().map(|it| it.new.name.as_str()));
    let names = free_slots(&observed.set.metadata.name, &used).take(count);
    names.map(|name| NewReplica { name, attempt: 0, replaces: None }).collect()
}

fn doomed(placed: &[(Life, &ReplicaFacts)], count: usize) -> Vec<Doomed> {
    let life_of = |name: &str| placed.iter().find(|(_, it)| it.name == name).map(|(life, _)| *life);
    let names = if count == 0 { Vec::new() } else { victims(placed, count) };
    // One that is chosen for being available stays a good choice; one that is chosen for not being so may have become so.
    let doom = |name: String| Doomed { unchanged: life_of(&name) != Some(Life::Available), name };
    names.into_iter().map(doom).collect()
}

/// What a new replica is.
pub fn spec_of(observed: &Observed, new: &NewReplica) -> ReplicaSpec {
    let set = &observed.set;
    ReplicaSpec {
        workload: set.spec.workload.clone(),
        replica_set: set.metadata.name.clone(),
        revision: set.spec.revision,
        template: set.spec.template.clone(),
        priority: observed.priority.unwrap_or_default(),
        completion_index: None,
        attempt: new.attempt,
        replaces: new.replaces.clone(),
        deadline: set.spec.deadline,
    }
}

/// The next moment at which time alone decides something: a pause is over, or a replica has been ready for long enough.
fn again_after(
    observed: &Observed,
    sorted: &Sorted<'_>,
    lives: &[(Life, &ReplicaFacts)],
) -> Option<Duration> {
    let min_ready = observed.set.spec.min_ready_seconds;
    let ready = lives.iter().filter(|(life, _)| *life == Life::Ready);
    let available = ready.filter_map(|(_, replica)| replica.available_at(min_ready));
    let due = available.chain(sorted.next).min()?;
    Some(Duration::from_millis(due.0.saturating_sub(observed.now.0).max(1)))
}
