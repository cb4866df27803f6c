//! What is to be done about one workload: pure, from the workload and its ReplicaSets.
//!
//! - `revisions`: which set is for which template
//! - `rolling`, `proportion`: how many each gets
//! - `progress`: whether it gets on, and where to
//! - `status`: what is said of it

use std::time::Duration;

use serde::Serialize;
use setpoint_client::Typed;
use setpoint_types::Timestamp;
use setpoint_types::kinds::{
    DeadlineState, DeadlineStatus, ReplicaSet, ReplicaSetSpec, RolloutPhase, RolloutStrategy, WorkloadStatus,
};

use super::observe::{Observed, is_told, share};
use super::progress::{self, Facts};
use super::proportion::{Scaled, scaled};
use super::rolling::{Limits, Share, recreate, rolling};
use super::{revisions, status};

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// A revision that the template asks for and that has no set yet. It has no replicas at first: how many it gets is decided with
    /// all others in view.
    pub create: Option<NewSet>,
    /// Sets that change, all of them at one revision or none.
    pub change: Vec<ChangedSet>,
    /// Old revisions that are forgotten.
    pub forget: Vec<String>,
    pub status: WorkloadStatus,
    /// When something is due though nothing changes.
    #[serde(skip)]
    pub again_after: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NewSet {
    pub name: String,
    pub spec: ReplicaSetSpec,
}

/// What changes in a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedSet {
    pub name: String,
    /// How many it had.
    pub from: u32,
    pub replicas: u32,
    pub workload_replicas: u32,
    pub min_ready_seconds: u32,
    #[serde(rename = "deadlineMs")]
    pub deadline: Option<Timestamp>,
}

pub fn plan(observed: &Observed) -> Plan {
    let spec = &observed.workload.spec;
    let before = observed.workload.status.clone().unwrap_or_default();
    let asked = revisions::find(&observed.sets, &spec.template);
    let target = asked.map(|asked| target(observed, &before, asked));
    let shares: Vec<Share> = observed.sets.iter().map(share).collect();
    let view = View {
        observed,
        before: &before,
        asked,
        target,
        shares: &shares,
        limits: Limits::of(&spec.rollout, spec.replicas),
    };
    let mut plan = Plan { status: view.status(), ..Plan::default() };
    let deadline = plan.status.deadline.clone();
    if asked.is_none() && !spec.rollout.paused {
        plan.create = Some(view.new_set());
    } else {
        plan.change = view.changes(deadline.as_ref());
    }
    if matches!(plan.status.rollout.phase, RolloutPhase::Complete | RolloutPhase::RolledBack) {
        plan.forget = view.forgotten();
    }
    plan.again_after = again_after(observed, &plan.status);
    plan
}

/// The set that is rolled out: that of the template, unless it was given up for one that is known to work.
fn target<'a>(
    observed: &'a Observed,
    before: &WorkloadStatus,
    asked: &'a Typed<ReplicaSet>,
) -> &'a Typed<ReplicaSet> {
    let is_given_up = before.rollout.failed_revision == asked.spec.revision;
    if !is_given_up || !observed.workload.spec.rollout.auto_rollback {
        return asked;
    }
    stable(observed, before, asked).unwrap_or(asked)
}

/// The last revision that was complete, if it is another one.
fn stable<'a>(
    observed: &'a Observed,
    before: &WorkloadStatus,
    asked: &Typed<ReplicaSet>,
) -> Option<&'a Typed<ReplicaSet>> {
    let revision = before.rollout.stable_revision;
    let is_it = |set: &&Typed<ReplicaSet>| {
        set.spec.revision == revision && revision != asked.spec.revision && !set.metadata.is_terminating()
    };
    observed.sets.iter().find(is_it)
}

/// What is there, as the parts of the plan look at it.
struct View<'a> {
    observed: &'a Observed,
    before: &'a WorkloadStatus,
    /// The set of the template.
    asked: Option<&'a Typed<ReplicaSet>>,
    /// The set that is rolled out.
    target: Option<&'a Typed<ReplicaSet>>,
    /// Of each set.
    shares: &'a [Share],
    limits: Limits,
}

impl View<'_> {
    fn is_target(&self, set: &Typed<ReplicaSet>) -> bool {
        self.target.is_some_and(|target| target.metadata.uid == set.metadata.uid)
    }

    fn is_told(&self) -> bool {
        self.observed.sets.iter().all(is_told)
    }

    /// Nothing of any other revision is there.
    fn is_alone(&self) -> bool {
        let mut others = self.observed.sets.iter().zip(self.shares).filter(|(set, _)| !self.is_target(set));
        self.target.is_some() && others.all(|(_, share)| share.is_gone())
    }

    fn new_set(&self) -> NewSet {
        let (metadata, spec) = (&self.observed.workload.metadata, &self.observed.workload.spec);
        let template_hash = revisions::fingerprint(&spec.template, &self.observed.sets);
        NewSet {
            name: revisions::set_name(&metadata.name, &template_hash),
            spec: ReplicaSetSpec {
                workload: metadata.name.clone(),
                revision: revisions::next(&self.observed.sets),
                replicas: 0,
                template: spec.template.clone(),
                template_hash,
                min_ready_seconds: spec.rollout.min_ready_seconds,
                workload_replicas: 0,
                deadline: None,
            },
        }
    }

    fn status(&self) -> WorkloadStatus {
        let observed = self.observed;
        let rollout = &observed.workload.spec.rollout;
        let desired = self.limits.desired;
        let target = self.target.map_or(0, |set| set.spec.revision);
        let counts = status::counts(&observed.sets, desired, target);
        let own = self.target.map(share).unwrap_or_default();
        let is_reached =
            own.wanted == desired && own.lasting() >= desired && self.target.is_some_and(is_told);
        let facts = Facts {
            asked: self.asked.map_or(0, |set| set.spec.revision),
            target,
            target_set: self.target.map_or("", |set| set.metadata.name.as_str()),
            can_go_back: self.asked.is_some_and(|asked| stable(observed, self.before, asked).is_some()),
            is_complete: is_reached && self.is_alone(),
            is_alone: self.is_alone(),
            is_told: self.is_told(),
            counts: &counts,
        };
        let mut status = WorkloadStatus {
            observed_generation: observed.workload.metadata.generation,
            rollout: progress::judge(self.before, rollout, facts, observed.now),
            deadline: status::deadline(observed, self.before, is_reached),
            pending_reasons: status::pending(&observed.sets),
            last_action: status::last_action(&observed.sets, self.before),
            last_error: status::last_error(&observed.sets, self.before),
            conditions: self.before.conditions.clone(),
            ..WorkloadStatus::default()
        };
        let (rollout, deadline) = (&status.rollout, status.deadline.as_ref());
        status::conditions(&mut status.conditions, observed, self.limits, &counts, rollout, deadline);
        status.replicas = counts;
        status
    }

    fn changes(&self, deadline: Option<&DeadlineStatus>) -> Vec<ChangedSet> {
        let is_over = deadline.is_some_and(|it| it.state == DeadlineState::Exceeded);
        let next = if is_over { None } else { self.targets() };
        let is_decided = next.as_ref().is_some_and(|next| !next.is_cut);
        let min_ready_seconds = self.observed.workload.spec.rollout.min_ready_seconds;
        let open = deadline.filter(|it| it.state != DeadlineState::Met).map(|it| it.time);
        let mut changes = Vec::new();
        for (place, set) in self.observed.sets.iter().enumerate() {
            if set.metadata.is_terminating() {
                continue;
            }
            let is = &set.spec;
            let replicas = next.as_ref().map_or(is.replicas, |next| next.targets[place]);
            let is_used = is.replicas > 0 || replicas > 0;
            let should = ChangedSet {
                name: set.metadata.name.clone(),
                from: is.replicas,
                replicas,
                workload_replicas: if is_decided && is_used {
                    self.limits.desired
                } else {
                    is.workload_replicas
                },
                min_ready_seconds: if is_used { min_ready_seconds } else { is.min_ready_seconds },
                deadline: if self.is_target(set) { open } else { None },
            };
            let differs = should.replicas != is.replicas
                || should.workload_replicas != is.workload_replicas
                || should.min_ready_seconds != is.min_ready_seconds
                || should.deadline != is.deadline;
            if differs {
                changes.push(should);
            }
        }
        changes
    }

    /// How many each set is to have next; none while that cannot be told.
    fn targets(&self) -> Option<Scaled> {
        let desired = self.limits.desired;
        let rollout = &self.observed.workload.spec.rollout;
        let sets = &self.observed.sets;
        if self.is_alone() {
            // No limit stands in the way of a mere number.
            let targets = sets.iter().map(|set| if self.is_target(set) { desired } else { 0 }).collect();
            return Some(Scaled { targets, is_cut: false });
        }
        if !self.is_told() {
            return None;
        }
        let active = || sets.iter().filter(|set| share(set).wanted > 0);
        let decided_for = active().map(|set| set.spec.workload_replicas).find(|before| *before != desired);
        let rolls = rollout.strategy == RolloutStrategy::Rolling;
        match decided_for {
            Some(before) if rolls || rollout.paused => {
                return Some(scaled(self.limits, before, self.shares));
            }
            _ if rollout.paused => return None,
            _ => {}
        }
        self.target?;
        let place = sets.iter().position(|set| self.is_target(set))?;
        let mut olds = self.shares.to_vec();
        let new = olds.remove(place);
        let step = if rolls { rolling(self.limits, new, &olds) } else { recreate(self.limits, new, &olds) };
        let mut targets = step.olds;
        targets.insert(place, step.new);
        Some(Scaled { targets, is_cut: false })
    }

    fn forgotten(&self) -> Vec<String> {
        let limit = self.observed.workload.spec.rollout.revision_history_limit;
        let kept = [self.asked, self.target].map(|set| set.map(|set| set.spec.revision));
        let stable = self.before.rollout.stable_revision;
        let is_spent = |set: &Typed<ReplicaSet>| {
            let revision = set.spec.revision;
            share(set).is_gone() && is_told(set) && !kept.contains(&Some(revision)) && revision != stable
        };
        let gone = revisions::forgotten(&self.observed.sets, limit, is_spent);
        gone.into_iter().map(|set| set.metadata.name.clone()).collect()
    }
}

/// The next moment at which time alone decides something. What is held, stuck or goes back waits for others.
fn again_after(observed: &Observed, status: &WorkloadStatus) -> Option<Duration> {
    let rollout = &status.rollout;
    let is_under_way = rollout.phase == RolloutPhase::Progressing;
    let progress = is_under_way.then(|| progress::deadline(rollout, &observed.workload.spec.rollout));
    let held = (is_under_way && !observed.sets.iter().all(is_told)).then(|| progress::held(rollout));
    let running = status.deadline.as_ref().filter(|it| it.state == DeadlineState::Running);
    let due = progress.into_iter().chain(held).chain(running.map(|it| it.time)).min()?;
    Some(Duration::from_millis(due.0.saturating_sub(observed.now.0).max(1)))
}
