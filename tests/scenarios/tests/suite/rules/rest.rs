//! F9: what is left when everything is quiet: every part has its owner, everything that is reserved is somebody's, nothing waits to go.

use setpoint_testkit::State;
use setpoint_types::ObjectKey;
use setpoint_types::kinds::{Binding, BindingState, Lease, Replica};

/// Records tell of what is gone, too.
const RECORDS: [&str; 2] = ["Event", "Decision"];

pub fn nothing_is_left(state: &State) -> Result<(), String> {
    for object in state.iter().filter(|it| !RECORDS.contains(&it.kind.as_str())) {
        if object.metadata.is_terminating() {
            return Err(format!("{} waits for {:?}", object.key(), object.metadata.finalizers));
        }
        let is_there = |uid| state.iter().any(|it| it.metadata.uid == uid);
        if let Some(owner) = object.metadata.owners.iter().find(|it| !is_there(it.uid.clone())) {
            return Err(format!("{} is left by {} {}", object.key(), owner.kind, owner.name));
        }
    }
    for (ledger, owner, amounts) in state.reservations() {
        reserved_for_somebody(state, owner).map_err(|why| format!("{amounts} of {ledger}: {why}"))?;
    }
    for binding in state.all::<Binding>() {
        let (namespace, status) = (&binding.metadata.namespace, binding.status.unwrap_or_default());
        let replica = state.one::<Replica>(namespace, &binding.spec.replica);
        let is_its = replica.is_some_and(|it| it.metadata.uid == binding.spec.replica_uid);
        if status.state != BindingState::Released && !is_its {
            return Err(format!("{} holds a node for nobody", binding.metadata.name));
        }
    }
    for lease in state.all::<Lease>() {
        let status = lease.status.unwrap_or_default();
        let held = state.held(&lease.metadata.namespace, &lease.metadata.name);
        if status.holder != held.map(|it| it.holder.clone()).unwrap_or_default() {
            return Err(format!("{} says {:?}, and {held:?} holds it", lease.metadata.name, status.holder));
        }
    }
    Ok(())
}

/// `{namespace}/{binding}/{uid of the binding}`, and that is not released.
fn reserved_for_somebody(state: &State, owner: &str) -> Result<(), String> {
    let parts: Vec<&str> = owner.split('/').collect();
    let [namespace, name, uid] = parts[..] else { return Err(format!("{owner} is no binding")) };
    let binding = state.get(&ObjectKey::new("Binding", namespace, name));
    match binding.filter(|it| it.metadata.uid.as_str() == uid) {
        None => Err(format!("{owner} is gone")),
        Some(it) if it.status["state"] == "Released" => Err(format!("{owner} is released")),
        Some(_) => Ok(()),
    }
}
