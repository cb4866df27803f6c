//! How far a rollout has come, whether it still gets on, and when it goes back. Pure.
//!
//! A revision that made no progress for too long is given up once, in the status (`failedRevision`): that record is what makes
//! later runs go back to the last revision that was complete, whoever runs them. It holds until the template changes.
//!
//! What a passed deadline may decide: to stop, and, where that was asked for, to go back to what is known to work. Time during which
//! nothing was told of the sets, or the rollout was paused, does not count.

use setpoint_types::Timestamp;
use setpoint_types::kinds::{ReplicaCounts, Rollout, RolloutPhase, RolloutStatus, WorkloadStatus};

use super::observe::present;

/// Nothing was told of a set for so long: the rollout is held, visibly. Shorter than that is the usual time between two writes.
const HELD_AFTER_MS: u64 = 30_000;

/// Where a rollout is now.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The revision that the template asks for; 0 if it has none yet.
    pub asked: u64,
    /// The revision that is rolled out: the one that is asked for, or the one that it goes back to.
    pub target: u64,
    pub target_set: &'a str,
    /// Whether there is a complete revision to go back to, other than the one asked for.
    pub can_go_back: bool,
    /// Nothing but the target is there, and all of it is available.
    pub is_complete: bool,
    /// Nothing but the target is there.
    pub is_alone: bool,
    /// What is known of the sets is about their specs as they are.
    pub is_told: bool,
    pub counts: &'a ReplicaCounts,
}

/// What is known of the rollout now, given what was known before.
pub fn judge(before: &WorkloadStatus, rollout: &Rollout, facts: Facts<'_>, now: Timestamp) -> RolloutStatus {
    let was = &before.rollout;
    let is_same = was.replica_set == facts.target_set && was.progress.0 > 0;
    let resumes = matches!(was.phase, RolloutPhase::Paused | RolloutPhase::Held);
    let has_moved = !is_same || has_progressed(&before.replicas, facts.counts);
    let mut status = RolloutStatus {
        phase: RolloutPhase::Progressing,
        revision: facts.asked,
        stable_revision: was.stable_revision,
        failed_revision: if was.failed_revision == facts.asked { was.failed_revision } else { 0 },
        replica_set: facts.target_set.to_owned(),
        progress: if has_moved { now } else { was.progress },
        message: String::new(),
    };
    let goes_back = facts.target != facts.asked;
    if facts.is_complete || (facts.is_alone && is_same && was.stable_revision == facts.target) {
        finish(&mut status, facts, goes_back);
    } else if rollout.paused {
        status.phase = RolloutPhase::Paused;
    } else if !facts.is_told && now >= held(&status).min(deadline(&status, rollout)) {
        status.phase = RolloutPhase::Held;
        status.message = "it waits for the replica controller, which has not told of a change yet".to_owned();
    } else {
        if resumes && !has_moved {
            status.progress = now;
        }
        go_on(&mut status, rollout, facts, goes_back, now);
    }
    status
}

/// Every replica is of the target.
fn finish(status: &mut RolloutStatus, facts: Facts<'_>, goes_back: bool) {
    if goes_back {
        status.phase = RolloutPhase::RolledBack;
        status.message = given_up(status);
        return;
    }
    status.phase = RolloutPhase::Complete;
    status.stable_revision = facts.asked;
    status.failed_revision = 0;
}

/// It is under way: it gets on, or it does not.
fn go_on(status: &mut RolloutStatus, rollout: &Rollout, facts: Facts<'_>, goes_back: bool, now: Timestamp) {
    if goes_back {
        status.phase = RolloutPhase::RollingBack;
        status.message = given_up(status);
        return;
    }
    if now.0 < deadline(status, rollout).0 {
        return;
    }
    status.phase = RolloutPhase::Stuck;
    status.message = format!("there was no progress for {} s", rollout.progress_deadline_seconds);
    if rollout.auto_rollback && facts.can_go_back {
        status.phase = RolloutPhase::RollingBack;
        status.failed_revision = facts.asked;
        status.message = given_up(status);
    }
}

fn given_up(status: &RolloutStatus) -> String {
    let (failed, stable) = (status.failed_revision, status.stable_revision);
    format!(
        "revision {failed} made no progress and was given up for revision {stable}; change the template to try again"
    )
}

/// When a rollout that makes no progress from now on counts as failed.
pub fn deadline(status: &RolloutStatus, rollout: &Rollout) -> Timestamp {
    Timestamp(status.progress.0.saturating_add(u64::from(rollout.progress_deadline_seconds) * 1000))
}

/// When a rollout of which nothing is told is held.
pub fn held(status: &RolloutStatus) -> Timestamp {
    Timestamp(status.progress.0.saturating_add(HELD_AFTER_MS))
}

/// More of the new ones, fewer of the old ones, or more that can be used.
fn has_progressed(before: &ReplicaCounts, now: &ReplicaCounts) -> bool {
    let olds = |counts: &ReplicaCounts| present(counts).saturating_sub(counts.updated);
    now.updated > before.updated || now.available > before.available || olds(now) < olds(before)
}
