//! What a ReplicaSet says of its replicas: how many are how far, what the others wait for, whether losses are made good. Pure.

use std::collections::BTreeMap;

use setpoint_runtime::conditions::{Conditions, Statement};
use setpoint_types::kinds::{PendingCount, PendingReason, ReplicaCounts, ReplicaSetStatus, Stage};

use super::observe::Observed;
use super::repair;
use crate::facts::{Life, ReplicaFacts};

pub fn status(observed: &Observed, lives: &[(Life, &ReplicaFacts)]) -> ReplicaSetStatus {
    let before = observed.set.status.clone().unwrap_or_default();
    let generation = observed.set.metadata.generation;
    let mut conditions = before.conditions;
    let mut say = Conditions::of(&mut conditions, generation, observed.now);
    say.set(repair::statement(lives));
    match (observed.priority, &observed.set.spec.template.priority_class) {
        (None, Some(class)) => {
            let message =
                format!("there is no PriorityClass {class}: make one, or name another in the template");
            say.set(Statement::fails("Created", "NoPriorityClass").message(message));
        }
        _ => drop(say.remove("Created")),
    }
    ReplicaSetStatus {
        observed_generation: generation,
        replicas: counts(observed.set.spec.replicas, lives),
        pending_reasons: pending(lives),
        last_action: before.last_action,
        last_error: before.last_error,
        conditions,
    }
}

/// Each replica where it is now.
pub fn counts(desired: u32, lives: &[(Life, &ReplicaFacts)]) -> ReplicaCounts {
    let mut counts = ReplicaCounts { desired, ..ReplicaCounts::default() };
    for (life, replica) in lives {
        let count = match life {
            Life::Stopping => &mut counts.stopping,
            Life::Ended if replica.status.stage == Stage::Succeeded => &mut counts.succeeded,
            Life::Ended | Life::Lost => &mut counts.failed,
            Life::Unknown | Life::Releasing => &mut counts.unknown,
            Life::Pending => &mut counts.pending,
            Life::Starting if replica.status.stage == Stage::Bound => &mut counts.bound,
            Life::Starting => &mut counts.starting,
            Life::Ready | Life::Available if replica.status.stage == Stage::Serving => &mut counts.serving,
            Life::Ready | Life::Available => &mut counts.ready,
        };
        *count += 1;
        if !matches!(life, Life::Stopping | Life::Ended | Life::Lost) {
            counts.admitted += 1;
            counts.updated += 1;
        }
        if *life == Life::Available {
            counts.available += 1;
        }
    }
    counts
}

/// What those wait for that are not ready.
pub fn pending(lives: &[(Life, &ReplicaFacts)]) -> Vec<PendingCount> {
    let mut all: BTreeMap<PendingReason, PendingCount> = BTreeMap::new();
    for (life, replica) in lives {
        let Some((reason, message, since)) = repair::waits_for(*life, replica) else { continue };
        let revision = replica.status.blocked.as_ref().map(|blocked| blocked.revision).unwrap_or_default();
        let counted =
            all.entry(reason).or_insert_with(|| PendingCount { reason, since, ..PendingCount::default() });
        counted.count += 1;
        counted.since = counted.since.min(since);
        if revision >= counted.revision {
            counted.message = message;
            counted.revision = revision;
        }
    }
    all.into_values().collect()
}
