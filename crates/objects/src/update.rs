//! Ownership by every write that is no apply: what a writer changes is its own from then on, without a conflict; what it
//! removes is nobody's.

use serde_json::Value;

use crate::changes::Changes;
use crate::managed::{Writer, settle};
use crate::object::ManagedFields;
use crate::topology::Topology;

/// The owners after `writer` has replaced one document `{"metadata": …, "spec": …}` by another.
pub fn update(
    topology: &Topology,
    old: &Value,
    new: &Value,
    managed: Vec<ManagedFields>,
    writer: &Writer<'_>,
) -> Vec<ManagedFields> {
    moved(Changes::of_documents(topology, old, new), managed, writer)
}

pub(crate) fn moved(
    changes: Changes,
    mut managed: Vec<ManagedFields>,
    writer: &Writer<'_>,
) -> Vec<ManagedFields> {
    if changes.is_empty() {
        return managed;
    }
    for entry in &mut managed {
        entry.lose(&changes.gone);
        entry.lose(&changes.set);
    }
    match managed.iter_mut().find(|entry| writer.wrote(entry)) {
        Some(own) => {
            own.gain(changes.set);
            own.time_ms = writer.time_ms;
        }
        None => managed.push(writer.entry(changes.set)),
    }
    settle(managed)
}
