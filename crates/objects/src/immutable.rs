//! Fields that never change once they are set: `x-setpoint-immutable: true`.
//!
//! What was absent may be set once. Items of a list that is a map are compared by key, and may come and go, unless the list
//! itself is immutable.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::fields::{Step, push_field};
use crate::refusal::FieldProblem;
use crate::topology::{NodeId, Topology};
use crate::view::{Place, View};

/// Immutable fields at or below a place that differ.
pub fn check(topology: &Topology, node: NodeId, old: &Value, new: &Value, path: &str) -> Vec<FieldProblem> {
    let mut problems = Vec::new();
    walk(Place::new(topology, node), old, Some(new), &mut path.to_owned(), &mut problems);
    problems
}

fn walk(
    place: Place<'_>,
    old: &Value,
    new: Option<&Value>,
    path: &mut String,
    problems: &mut Vec<FieldProblem>,
) {
    if old.is_null() || !place.topology.has_immutable(place.node) || new == Some(old) {
        return;
    }
    if place.topology.is_immutable(place.node) {
        let message = format!(
            "cannot change once it is set, and is {}: keep it, or delete the object and create it anew",
            shortened(old)
        );
        return problems.push(FieldProblem::new(path.clone(), message));
    }
    let back = path.len();
    match (place.view(old), new.map(|new| place.view(new))) {
        (View::Object(old), new) => {
            let empty = serde_json::Map::new();
            // Gone as a whole, or something else by now: then every field below is gone.
            let new = match new {
                Some(View::Object(new)) => new,
                _ => &empty,
            };
            for (name, old) in old {
                push_field(path, name);
                walk(place.field(name), old, new.get(name), path, problems);
                path.truncate(back);
            }
        }
        (View::Items(old), Some(View::Items(new))) => {
            let new: BTreeMap<Step, &Value> = new.into_iter().collect();
            for (step, old) in old {
                if let Some(new) = new.get(&step) {
                    path.push_str(&Step::print(&[step]));
                    walk(place.item(), old, Some(new), path, problems);
                    path.truncate(back);
                }
            }
        }
        _ => {}
    }
}

fn shortened(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 60 {
        text
    } else {
        format!("{}…", text.chars().take(60).collect::<String>())
    }
}
