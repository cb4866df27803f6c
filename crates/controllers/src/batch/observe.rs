//! What the plan of a batch is made from: the workload, and the replicas it controls with their bindings.

use setpoint_client::Typed;
use setpoint_runtime::cache::{Cache, Key};
use setpoint_types::kinds::{Binding, PriorityClass, Replica, Workload};
use setpoint_types::{FieldProblem, Timestamp};

use crate::facts::ReplicaFacts;
use crate::priority;

/// Everything the plan is made from.
#[derive(Clone, Debug)]
pub struct Observed {
    pub workload: Typed<Workload>,
    /// Those it controls, whatever has become of them, by name.
    pub replicas: Vec<ReplicaFacts>,
    /// Of new replicas; none if the class that the template names is not there.
    pub priority: Option<i32>,
    pub now: Timestamp,
}

/// The caches it reads.
pub(super) struct Caches {
    pub workloads: Cache<Workload>,
    pub replicas: Cache<Replica>,
    pub bindings: Cache<Binding>,
    pub classes: Cache<PriorityClass>,
}

impl Caches {
    pub fn observe(&self, key: &Key, now: Timestamp) -> Result<Option<Observed>, FieldProblem> {
        let Some(workload) = self.workloads.read(key)? else { return Ok(None) };
        if workload.spec.batch.is_none() || workload.metadata.is_terminating() {
            return Ok(None);
        }
        let uid = &workload.metadata.uid;
        let mut replicas = Vec::new();
        for entry in self.replicas.find("owner", uid.as_str()) {
            let facts = ReplicaFacts::read(&entry)?;
            if facts.owner == *uid && facts.completion_index.is_some() {
                replicas.push(facts.with_binding(self.bindings.read(entry.key())?));
            }
        }
        let priority = priority::of(&self.classes, workload.spec.template.priority_class.as_deref())?;
        Ok(Some(Observed { workload, replicas, priority, now }))
    }
}
