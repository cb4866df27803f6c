//! Which losses are made good now, and how it stands with the others. Pure.
//!
//! The path of a loss, each step a record that somebody else wrote: binding `Unknown` → grace → `ReleaseRequested` → `Released` →
//! one replacement, named after the binding → until it serves, or has a named blocker. What is here is the part from `Released` on;
//! the part before is the binding controller's.

use setpoint_runtime::conditions::Statement;
use setpoint_types::Timestamp;
use setpoint_types::kinds::{PendingReason, RestartBackoff, Stage};

use crate::facts::{Life, ReplicaFacts};

/// Whether a replica that does not run any more is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// It is not over: nobody knows, or its node is not given back.
    NotYet,
    /// Now, as the attempt of this number.
    Now { attempt: u32 },
    /// After a pause, because it ended by itself.
    At(Timestamp),
}

/// Whether, and when, another takes its place.
pub fn due(life: Life, replica: &ReplicaFacts, backoff: &RestartBackoff, now: Timestamp) -> Due {
    match life {
        Life::Lost => Due::Now { attempt: replica.attempt },
        Life::Ended if replica.is_released() => {
            let ended = replica.ended_at();
            let served = replica.status.stages.ready.map_or(0, |ready| ended.0.saturating_sub(ready.0));
            let attempt = if served >= seconds(backoff.reset_seconds) { 0 } else { replica.attempt };
            let at = Timestamp(ended.0.saturating_add(pause(backoff, attempt)));
            if at <= now { Due::Now { attempt: attempt.saturating_add(1) } } else { Due::At(at) }
        }
        _ => Due::NotYet,
    }
}

/// How long it is waited before the next attempt, in milliseconds: doubled each time.
fn pause(backoff: &RestartBackoff, attempt: u32) -> u64 {
    let doubled =
        seconds(backoff.initial_seconds).saturating_mul(1_u64.checked_shl(attempt).unwrap_or(u64::MAX));
    doubled.min(seconds(backoff.max_seconds))
}

fn seconds(seconds: u32) -> u64 {
    u64::from(seconds) * 1000
}

/// Whether every loss is made good, and if not, which step is next: the condition `Repaired`.
pub fn statement(replicas: &[(Life, &ReplicaFacts)]) -> Statement {
    let open: Vec<(String, String)> = replicas.iter().filter_map(|(life, it)| open_step(*life, it)).collect();
    let Some((reason, message)) = open.first() else { return Statement::holds("Repaired", "NothingLost") };
    let message = match open.len() - 1 {
        0 => message.clone(),
        more => format!("{message}; and {more} more"),
    };
    Statement::fails("Repaired", reason.clone()).message(message)
}

fn open_step(life: Life, replica: &ReplicaFacts) -> Option<(String, String)> {
    let name = &replica.name;
    let node = replica.binding.as_ref().map_or("", |binding| binding.node.as_str());
    let step = |reason: &str, message: String| Some((reason.to_owned(), message));
    match life {
        Life::Unknown => {
            step("WithinGrace", format!("{name}: its node {node} is out of reach, and may come back"))
        }
        Life::Releasing => step("AwaitingRelease", format!("{name}: its node {node} is being taken back")),
        Life::Lost => step("Replacing", format!("{name}: it was lost with its node {node}, and is replaced")),
        Life::Pending | Life::Starting if replica.replaces.is_some() => match &replica.status.blocked {
            None => step("ReplacementStarting", format!("{name}, which replaces another, is on its way")),
            Some(blocked) => {
                let message = format!("{name}, which replaces another: {}", blocked.message);
                step(&format!("{:?}", blocked.reason), message)
            }
        },
        _ => None,
    }
}

/// What a replica that is not ready waits for.
pub fn waits_for(life: Life, replica: &ReplicaFacts) -> Option<(PendingReason, String, Timestamp)> {
    let of_binding = || replica.binding.as_ref().map(|it| it.status.since).unwrap_or_default();
    match life {
        Life::Pending | Life::Starting => Some(match (&replica.status.blocked, replica.status.stage) {
            (Some(blocked), _) => (blocked.reason, blocked.message.clone(), blocked.since),
            (None, Stage::Admitted) => (PendingReason::NotEvaluated, String::new(), replica.created),
            (None, Stage::Queued) => (
                PendingReason::Queued,
                String::new(),
                replica.status.stages.queued.unwrap_or(replica.created),
            ),
            (None, _) => {
                let since = replica.status.stages.bound.unwrap_or(replica.created);
                (PendingReason::Starting, String::new(), since)
            }
        }),
        Life::Unknown => Some((PendingReason::NodeUnreachable, String::new(), of_binding())),
        Life::Releasing | Life::Lost => Some((PendingReason::AwaitingRelease, String::new(), of_binding())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use setpoint_types::kinds::{BindingState, BindingStatus, ReplicaStatus, StageTimes};

    use super::*;
    use crate::facts::BindingFacts;

    const BACKOFF: RestartBackoff =
        RestartBackoff { initial_seconds: 10, max_seconds: 300, reset_seconds: 600 };

    fn ended(attempt: u32, ready: Option<u64>, at: u64, state: BindingState) -> ReplicaFacts {
        let stages =
            StageTimes { ready: ready.map(Timestamp), ended: Some(Timestamp(at)), ..StageTimes::default() };
        let binding = BindingStatus { state, ..BindingStatus::default() };
        ReplicaFacts {
            attempt,
            status: ReplicaStatus { stage: Stage::Failed, stages, ..ReplicaStatus::default() },
            binding: Some(BindingFacts { status: binding, ..BindingFacts::default() }),
            ..ReplicaFacts::default()
        }
    }

    fn check(replica: &ReplicaFacts, now: u64, expected: Due) {
        assert_eq!(due(replica.life(0, Timestamp(now)), replica, &BACKOFF, Timestamp(now)), expected);
    }

    #[test]
    fn what_ended_is_replaced_after_a_pause_that_doubles_and_after_its_release() {
        let released = BindingState::Released;
        check(&ended(0, None, 1_000, BindingState::Bound), 999_000, Due::NotYet);
        check(&ended(0, None, 1_000, released), 5_000, Due::At(Timestamp(11_000)));
        check(&ended(0, None, 1_000, released), 11_000, Due::Now { attempt: 1 });
        check(&ended(3, None, 1_000, released), 11_000, Due::At(Timestamp(81_000)));
        check(&ended(70, None, 1_000, released), 11_000, Due::At(Timestamp(301_000)));
    }

    #[test]
    fn what_served_for_long_begins_anew() {
        let long = ended(7, Some(1_000), 700_000, BindingState::Released);
        check(&long, 710_000, Due::Now { attempt: 1 });
    }

    #[test]
    fn what_was_lost_with_its_node_is_replaced_at_once_and_has_not_failed() {
        let mut lost = ended(2, None, 0, BindingState::Released);
        lost.status.stage = Stage::Serving;
        check(&lost, 1, Due::Now { attempt: 2 });
    }
}
