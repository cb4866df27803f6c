//! How far each completion of a batch has come: its attempts, and when the next may begin. Pure.

use std::collections::BTreeMap;

use setpoint_types::Timestamp;
use setpoint_types::kinds::{FailureCount, RestartBackoff, Stage};

use crate::facts::{Life, ReplicaFacts};
use crate::replica::{Due, due};

/// What a replica that was lost with its node counts as.
pub const NODE_LOST: &str = "NodeLost";

/// How far one completion has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    /// It succeeded.
    Done,
    /// An attempt is under way, or may be.
    Active,
    /// The next attempt may begin, in place of the binding that was lost, if it was.
    Open { attempt: u32, replaces: Option<String> },
    /// The next attempt may begin then.
    Waits { until: Timestamp },
}

/// By completion index, for all that have had an attempt.
pub fn completions(
    replicas: &[(Life, &ReplicaFacts)],
    backoff: &RestartBackoff,
    now: Timestamp,
) -> BTreeMap<u32, Completion> {
    let mut by_index: BTreeMap<u32, Vec<(Life, &ReplicaFacts)>> = BTreeMap::new();
    for (life, replica) in replicas {
        by_index.entry(replica.completion_index.unwrap_or(0)).or_default().push((*life, replica));
    }
    by_index.into_iter().map(|(index, attempts)| (index, completion(&attempts, backoff, now))).collect()
}

fn completion(attempts: &[(Life, &ReplicaFacts)], backoff: &RestartBackoff, now: Timestamp) -> Completion {
    if attempts.iter().any(|(_, it)| it.status.stage == Stage::Succeeded) {
        return Completion::Done;
    }
    let mut newest = Completion::Active;
    for (life, replica) in attempts.iter().copied() {
        match due(life, replica, backoff, now) {
            Due::NotYet => return Completion::Active,
            _ if attempts.iter().any(|(_, other)| other.attempt > replica.attempt) => {}
            Due::At(until) => newest = Completion::Waits { until },
            Due::Now { .. } => {
                let lost = (life == Life::Lost).then_some(replica.binding.as_ref()).flatten();
                let replaces = lost.map(|binding| binding.name.clone());
                newest = Completion::Open { attempt: replica.attempt + 1, replaces };
            }
        }
    }
    newest
}

/// Those that did not succeed, by reason.
pub fn failures(replicas: &[(Life, &ReplicaFacts)]) -> Vec<FailureCount> {
    let mut by_reason: BTreeMap<String, FailureCount> = BTreeMap::new();
    for (life, replica) in replicas {
        let (reason, message) = match life {
            Life::Lost => (NODE_LOST.to_owned(), String::new()),
            Life::Ended if replica.status.stage == Stage::Failed => {
                let exit = replica.status.last_exit.as_ref();
                let reason = exit.map(|exit| exit.reason.clone()).filter(|reason| !reason.is_empty());
                (
                    reason.unwrap_or_else(|| "Failed".to_owned()),
                    exit.map(|it| it.message.clone()).unwrap_or_default(),
                )
            }
            _ => continue,
        };
        let counted = reason != NODE_LOST;
        let known = by_reason.entry(reason.clone()).or_insert(FailureCount {
            reason,
            counted,
            ..FailureCount::default()
        });
        known.count += 1;
        known.message = message;
    }
    by_reason.into_values().collect()
}

/// How many count against the limit.
pub fn counted(failures: &[FailureCount]) -> u32 {
    failures.iter().filter(|it| it.counted).map(|it| it.count).sum()
}
