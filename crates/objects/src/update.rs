//! Ownership by every write that is no apply: what a writer changes is its own from then on, without a conflict; what it
//! removes is nobody's.

use serde_json::Value;

use crate::changes::Changes;
use crate::managed::{Managed, Writer, settle};
use crate::topology::Topology;

/// The owners after `writer` has replaced one document `{"metadata": …, "spec": …}` by another.
pub fn update(
    topology: &Topology,
    old: &Value,
    new: &Value,
    managed: Vec<Managed>,
    writer: &Writer<'_>,
) -> Vec<Managed> {
    moved(&Changes::of_documents(topology, old, new), managed, writer)
}

pub(crate) fn moved(changes: &Changes, mut managed: Vec<Managed>, writer: &Writer<'_>) -> Vec<Managed> {
    if changes.is_empty() {
        return managed;
    }
    let touched = changes.touched();
    for entry in &mut managed {
        entry.fields = entry.fields.without_below(&touched);
    }
    match managed.iter_mut().find(|entry| entry.is_of(writer)) {
        Some(own) => {
            own.fields.add(changes.set.clone());
            own.time_ms = writer.time_ms;
        }
        None => managed.push(Managed::by(writer, changes.set.clone())),
    }
    settle(managed)
}
