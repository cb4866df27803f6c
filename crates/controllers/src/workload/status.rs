//! What a workload says of itself: counts, reasons, conditions. Pure; what was said before is gone on with, so that nothing is written
//! which nobody could see the difference of.

use setpoint_client::Typed;
use setpoint_runtime::conditions::{Conditions, Statement};
use setpoint_types::Generation;
use setpoint_types::kinds::{
    DeadlineState, DeadlineStatus, LastAction, LastError, PendingCount, ReplicaCounts, ReplicaSet,
    RolloutPhase, RolloutStatus, WorkloadStatus,
};
use setpoint_types::object::{Condition, ConditionStatus, find_condition};

use super::observe::{Observed, is_told, present};
use super::rolling::Limits;

/// All counts of all sets. `target` is the revision whose replicas are the updated ones.
pub fn counts(sets: &[Typed<ReplicaSet>], desired: u32, target: u64) -> ReplicaCounts {
    let mut sum = ReplicaCounts { desired, ..ReplicaCounts::default() };
    for set in sets {
        let Some(status) = &set.status else { continue };
        let more = &status.replicas;
        sum.admitted += more.admitted;
        sum.pending += more.pending;
        sum.bound += more.bound;
        sum.starting += more.starting;
        sum.ready += more.ready;
        sum.serving += more.serving;
        sum.unknown += more.unknown;
        sum.stopping += more.stopping;
        sum.succeeded += more.succeeded;
        sum.failed += more.failed;
        sum.available += more.available;
        if set.spec.revision == target {
            sum.updated += present(more) - more.stopping;
        }
    }
    sum
}

/// The reasons of all sets: how many, since when the first, and what the largest group says.
pub fn pending(sets: &[Typed<ReplicaSet>]) -> Vec<PendingCount> {
    let mut all: Vec<PendingCount> = Vec::new();
    for more in sets.iter().filter_map(|set| set.status.as_ref()).flat_map(|it| &it.pending_reasons) {
        match all.iter_mut().find(|known| known.reason == more.reason) {
            None => all.push(more.clone()),
            Some(known) => {
                if more.count > known.count {
                    known.message.clone_from(&more.message);
                }
                known.count += more.count;
                known.since = known.since.min(more.since);
                known.revision = known.revision.max(more.revision);
            }
        }
    }
    all.sort_by_key(|it| it.reason);
    all
}

/// How it stands with the deadline.
pub fn deadline(observed: &Observed, before: &WorkloadStatus, is_reached: bool) -> Option<DeadlineStatus> {
    let (metadata, seconds) = (&observed.workload.metadata, observed.workload.spec.deadline_seconds);
    let known = before.deadline.as_ref().filter(|_| before.observed_generation == metadata.generation);
    crate::deadline::judge(metadata, seconds, known, is_reached, observed.now)
}

/// What was last tried, by whoever tried it.
pub fn last_action(sets: &[Typed<ReplicaSet>], before: &WorkloadStatus) -> Option<LastAction> {
    let of_sets = sets.iter().filter_map(|set| set.status.as_ref()?.last_action.as_ref());
    of_sets.chain(&before.last_action).max_by_key(|action| action.time).cloned()
}

/// What last went wrong, wherever it did.
pub fn last_error(sets: &[Typed<ReplicaSet>], before: &WorkloadStatus) -> Option<LastError> {
    let of_sets = sets.iter().filter_map(|set| set.status.as_ref()?.last_error.as_ref());
    of_sets.chain(&before.last_error).max_by_key(|error| error.time).cloned()
}

/// `Available`, `Progressing` and `Repaired`, as of this generation.
pub fn conditions(
    list: &mut Vec<Condition>,
    observed: &Observed,
    limits: Limits,
    counts: &ReplicaCounts,
    rollout: &RolloutStatus,
    deadline: Option<&DeadlineStatus>,
) {
    let generation = observed.workload.metadata.generation;
    let repaired = repaired(&observed.sets, list, generation);
    let mut conditions = Conditions::of(list, generation, observed.now);
    conditions.set(available(limits, counts));
    conditions.set(progressing(rollout, deadline));
    conditions.set(repaired);
}

fn available(limits: Limits, counts: &ReplicaCounts) -> Statement {
    if counts.available >= limits.least() {
        return Statement::holds("Available", "Enough");
    }
    let (available, least) = (counts.available, limits.least());
    Statement::fails("Available", "TooFew")
        .message(format!("{available} of {} are available, {least} have to be", limits.desired))
}

fn progressing(rollout: &RolloutStatus, deadline: Option<&DeadlineStatus>) -> Statement {
    if deadline.is_some_and(|it| it.state == DeadlineState::Exceeded)
        && rollout.phase != RolloutPhase::Complete
    {
        let message =
            "its deadline has passed, and it is not tried any further; a change of the workload begins anew";
        return Statement::fails("Progressing", "DeadlineExceeded").message(message);
    }
    let (status, reason) = match rollout.phase {
        RolloutPhase::Complete => (ConditionStatus::True, "Complete"),
        RolloutPhase::Progressing => (ConditionStatus::True, "Progressing"),
        RolloutPhase::Paused => (ConditionStatus::Unknown, "Paused"),
        RolloutPhase::Held => (ConditionStatus::Unknown, "Held"),
        RolloutPhase::Stuck => (ConditionStatus::False, "ProgressDeadlineExceeded"),
        RolloutPhase::RollingBack => (ConditionStatus::True, "RollingBack"),
        RolloutPhase::RolledBack => (ConditionStatus::False, "RolledBack"),
    };
    Statement::new("Progressing", status, reason).message(rollout.message.clone())
}

/// Whether every loss is made good. While a set has yet to tell, what was said before is said again.
fn repaired(sets: &[Typed<ReplicaSet>], before: &[Condition], generation: Generation) -> Statement {
    let again = find_condition(before, "Repaired").filter(|it| it.observed_generation == generation);
    if let Some(before) = again.filter(|_| !sets.iter().all(is_told)) {
        return Statement::new("Repaired", before.status, before.reason.clone())
            .message(before.message.clone());
    }
    let told = sets.iter().filter_map(|set| find_condition(&set.status.as_ref()?.conditions, "Repaired"));
    match told.clone().find(|it| it.status == ConditionStatus::False) {
        Some(open) => Statement::fails("Repaired", open.reason.clone()).message(open.message.clone()),
        None if told.count() == 0 => Statement::unknown("Repaired", "NotObserved"),
        None => Statement::holds("Repaired", "NothingLost"),
    }
}
