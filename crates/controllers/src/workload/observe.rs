//! What the plan of a workload is made from: the workload, and the ReplicaSets it controls.
//!
//! Replicas are not looked at: the status of their set says how many are how far, and for which generation of the set that is. So
//! a workload of many replicas is as quickly decided as one of few.

use setpoint_client::Typed;
use setpoint_runtime::cache::{Cache, Key};
use setpoint_types::kinds::{ReplicaCounts, ReplicaSet, Workload};
use setpoint_types::{FieldProblem, Timestamp};

use super::rolling::Share;

/// Everything the plan is made from.
#[derive(Clone, Debug)]
pub struct Observed {
    pub workload: Typed<Workload>,
    /// Those it controls, oldest revision first.
    pub sets: Vec<Typed<ReplicaSet>>,
    pub now: Timestamp,
}

pub(super) fn observe(
    workloads: &Cache<Workload>,
    sets: &Cache<ReplicaSet>,
    key: &Key,
    now: Timestamp,
) -> Result<Option<Observed>, FieldProblem> {
    let Some(workload) = workloads.read(key)? else { return Ok(None) };
    // A batch has no revisions: `batch`. One that goes is the collector's.
    if workload.spec.batch.is_some() || workload.metadata.is_terminating() {
        return Ok(None);
    }
    let uid = &workload.metadata.uid;
    let mut own = Vec::new();
    for set in sets.find("owner", uid.as_str()) {
        let set = set.read()?;
        if set.metadata.controller().is_some_and(|owner| owner.uid == *uid) {
            own.push(set);
        }
    }
    own.sort_by_key(|set| set.spec.revision);
    Ok(Some(Observed { workload, sets: own, now }))
}

/// What a set has, as far as it was told.
pub fn share(set: &Typed<ReplicaSet>) -> Share {
    let counts = set.status.as_ref().map(|status| &status.replicas);
    Share {
        // One that is being deleted has what is still there.
        wanted: if set.metadata.is_terminating() { 0 } else { set.spec.replicas },
        present: counts.map_or(0, present),
        available: counts.map_or(0, |counts| counts.available),
    }
}

/// How many of these are there, and run or may run: those that ended do not count, those that are being stopped do.
pub fn present(counts: &ReplicaCounts) -> u32 {
    let ReplicaCounts { pending, bound, starting, ready, serving, unknown, stopping, .. } = counts;
    pending + bound + starting + ready + serving + unknown + stopping
}

/// Whether what is told of a set is about its spec as it is now. A new one that is to have none has none.
pub fn is_told(set: &Typed<ReplicaSet>) -> bool {
    let told = set.status.as_ref().map(|status| status.observed_generation).unwrap_or_default();
    told >= set.metadata.generation
        || set.metadata.is_terminating()
        || (set.metadata.generation.0 <= 1 && set.spec.replicas == 0)
}
