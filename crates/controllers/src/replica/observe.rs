//! What the plan of a ReplicaSet is made from: the set, its replicas with their bindings, and the priority of new ones.

use std::collections::BTreeSet;

use setpoint_client::Typed;
use setpoint_runtime::cache::{Cache, Entry, Index, Key};
use setpoint_types::kinds::{Binding, PriorityClass, Replica, ReplicaSet};
use setpoint_types::{FieldProblem, Timestamp};

use crate::facts::ReplicaFacts;
use crate::priority;

/// The index by which the replicas of a set are found, whoever owns them: `namespace/set`.
pub(super) const BY_SET: &str = "set";

/// Everything the plan is made from.
#[derive(Clone, Debug)]
pub struct Observed {
    pub set: Typed<ReplicaSet>,
    /// Those it controls, by name.
    pub replicas: Vec<ReplicaFacts>,
    /// Names of the set's that somebody else's replicas have.
    pub taken: BTreeSet<String>,
    /// Of new replicas; none if the class that the template names is not there.
    pub priority: Option<i32>,
    pub now: Timestamp,
}

pub(super) fn index() -> Index {
    Index::new(BY_SET, |entry| {
        let set = ReplicaFacts::read(entry)?.set;
        Ok(if set.is_empty() { Vec::new() } else { vec![in_namespace(entry.key().namespace(), &set)] })
    })
}

fn in_namespace(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// The caches it reads.
pub(super) struct Caches {
    pub sets: Cache<ReplicaSet>,
    pub replicas: Cache<Replica>,
    pub bindings: Cache<Binding>,
    pub classes: Cache<PriorityClass>,
}

impl Caches {
    pub fn observe(&self, key: &Key, now: Timestamp) -> Result<Option<Observed>, FieldProblem> {
        let Some(set) = self.sets.read(key)? else { return Ok(None) };
        // What is left of one that goes is the collector's.
        if set.metadata.is_terminating() {
            return Ok(None);
        }
        let (mut replicas, mut taken) = (Vec::new(), BTreeSet::new());
        for entry in self.replicas.find(BY_SET, &in_namespace(key.namespace(), key.name())) {
            let facts = ReplicaFacts::read(&entry)?;
            if facts.owner == set.metadata.uid {
                replicas.push(facts.with_binding(self.bindings.read(entry.key())?));
            } else {
                taken.insert(facts.name);
            }
        }
        let priority = priority::of(&self.classes, set.spec.template.priority_class.as_deref())?;
        Ok(Some(Observed { set, replicas, taken, priority, now }))
    }
}

/// The set that a replica belongs to.
pub(super) fn set_of(entry: &Entry) -> Option<Key> {
    let set = ReplicaFacts::read(entry).ok()?.set;
    (!set.is_empty()).then(|| Key::new(entry.key().namespace(), &set))
}
