//! F3, F7: a replica is given one node, once; and a node is given back only once nothing runs there, before the loss is made good.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use setpoint_testkit::{Change, Entry, State};
use setpoint_types::ObjectKey;
use setpoint_types::object::Object;

use super::Rule;

fn is_released(binding: &Object) -> bool {
    binding.status["state"] == json!("Released")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// F3: the node of a replica is never another one, and no two bindings that are not released are for one replica.
#[derive(Default)]
pub struct BoundOnce {
    /// By the uid of the replica: the binding that holds its node.
    held: BTreeMap<String, ObjectKey>,
}

impl Rule for BoundOnce {
    fn name(&self) -> &'static str {
        "F3: no double bind"
    }

    fn see(&mut self, entry: &Entry, _: &State) -> Result<(), String> {
        for change in entry.changes.iter().filter(|it| it.key.kind == "Replica") {
            let (Some(before), Some(after)) = (&change.before, &change.after) else { continue };
            let (was, is) = (text(&before.status["node"]), text(&after.status["node"]));
            if before.metadata.uid == after.metadata.uid && !was.is_empty() && was != is {
                return Err(format!("{} was on {was} and is on {is:?}", change.key));
            }
        }
        // What is given back at this revision may be given to another at the same.
        let (ended, held): (Vec<&Change>, Vec<&Change>) = entry
            .changes
            .iter()
            .filter(|it| it.key.kind == "Binding")
            .partition(|it| it.after.as_ref().is_none_or(|it| is_released(it)));
        for change in ended {
            if let Some(before) = &change.before {
                self.held.remove(text(&before.spec["replicaUid"]));
            }
        }
        for change in held {
            let Some(after) = &change.after else { continue };
            let replica = text(&after.spec["replicaUid"]).to_owned();
            let holder = self.held.entry(replica).or_insert_with(|| change.key.clone());
            if *holder != change.key {
                return Err(format!("{} and {holder} hold nodes for one replica", change.key));
            }
        }
        Ok(())
    }
}

/// F7: a release is committed only after the agent has confirmed the stop, or once it was asked for and nobody acts for the node at the
/// epoch of the binding; and what makes a loss good is made and bound only after that.
#[derive(Default)]
pub struct ReleasedFirst;

impl Rule for ReleasedFirst {
    fn name(&self) -> &'static str {
        "F7: replacement only after release"
    }

    fn see(&mut self, entry: &Entry, after: &State) -> Result<(), String> {
        for change in entry.changes.iter().filter(|it| it.key.kind == "Binding") {
            match (&change.before, &change.after) {
                (Some(before), Some(now)) if !is_released(before) && is_released(now) => {
                    may_be_released(before, after)?;
                }
                (None, Some(now)) => {
                    let key = ObjectKey::new("Replica", &change.key.namespace, text(&now.spec["replica"]));
                    let replica = after.get(&key);
                    released_before(replica, &change.key, after)?;
                }
                _ => {}
            }
        }
        for change in entry.changes.iter().filter(|it| it.key.kind == "Replica" && it.before.is_none()) {
            released_before(change.after.as_deref(), &change.key, after)?;
        }
        Ok(())
    }
}

fn may_be_released(before: &Object, state: &State) -> Result<(), String> {
    if before.status["stoppedMs"].is_u64() {
        return Ok(());
    }
    let node = text(&before.spec["node"]);
    let epoch = before.spec["nodeEpoch"].as_u64().unwrap_or(0);
    let held = state.held("setpoint-system", &format!("node-{node}"));
    let is_asked_for = before.status["state"] == json!("ReleaseRequested");
    let acts = held.is_some_and(|it| it.epoch.0 == epoch);
    match is_asked_for && !acts {
        true => Ok(()),
        false => Err(format!("{} was released as {}, held: {held:?}", before.key(), before.status)),
    }
}

fn released_before(replica: Option<&Object>, what: &ObjectKey, state: &State) -> Result<(), String> {
    let Some(replica) = replica else { return Ok(()) };
    let Some(lost) = replica.spec["replaces"].as_str() else { return Ok(()) };
    match state.get(&ObjectKey::new("Binding", &what.namespace, lost)) {
        Some(binding) if !is_released(binding) => {
            Err(format!("{what} makes good {lost}, which is {}", binding.status["state"]))
        }
        _ => Ok(()),
    }
}
