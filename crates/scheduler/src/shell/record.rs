//! Writing down why there was no node: one record for all replicas that are alike.

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_runtime::recorder::{Draft, Grounds};
use setpoint_types::kinds::{Verdict, WakeCondition};
use setpoint_types::object::ObjectReference;
use setpoint_types::{Epoch, Generation, Revision, Timestamp};

use crate::core::engine::Notice;

/// As decisions name it.
pub const COMPONENT: &str = "scheduler";
/// What the kind's schema allows.
const MESSAGE_BYTES_MAX: usize = 1024;

/// A decision about the replicas of a workload.
pub fn grounds(namespace: &str, workload: &str, now: Timestamp) -> Grounds {
    Grounds {
        object: ObjectReference {
            kind: "Workload".to_owned(),
            namespace: namespace.to_owned(),
            name: workload.to_owned(),
            ..ObjectReference::default()
        },
        generation: Generation::default(),
        cause: None,
        queue_wait: Duration::ZERO,
        attempt: 1,
        component: COMPONENT.into(),
        epoch: Epoch::default(),
        cache_revisions: BTreeMap::new(),
        policy_version: String::new(),
        trace: None,
        now,
    }
}

pub fn draft(
    notice: &Notice,
    epoch: Epoch,
    observed: &BTreeMap<String, Revision>,
    flush: Timestamp,
    now: Timestamp,
) -> Draft {
    let grounds = Grounds {
        queue_wait: Duration::from_millis(notice.waited_ms),
        attempt: notice.attempt,
        epoch,
        cache_revisions: observed.clone(),
        policy_version: notice.policy_version.clone(),
        ..grounds(&notice.namespace, &notice.workload, now)
    };
    let refusal = &*notice.refusal;
    let mut draft = grounds.decide("Place").search(refusal.search.clone());
    for filter in &refusal.filters {
        draft = draft.filter(filter.clone());
    }
    for miss in &refusal.nearest_misses {
        draft = draft.nearest_miss(miss.clone());
    }
    for quota in &refusal.quota {
        draft = draft.quota(quota.clone());
    }
    for topology in &refusal.topology {
        draft = draft.topology(topology.clone());
    }
    for wake in &notice.wakes {
        draft = draft.wake(wake.clone());
    }
    let timer = WakeCondition { event: "Timer".to_owned(), detail: String::new(), at: Some(flush) };
    draft.wake(timer).verdict(Verdict {
        outcome: refusal.outcome,
        reason: Some(refusal.reason),
        message: cut(format!("{} of its replicas: {}", notice.waiting, refusal.message)),
        ..Verdict::default()
    })
}

/// As long as a decision may say it.
fn cut(mut message: String) -> String {
    while message.len() > MESSAGE_BYTES_MAX {
        message.pop();
    }
    message
}
