//! Lists that are maps or sets and break their own rules: an item without its key, a key or a member twice.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::fields::{Scalar, Step, push_field};
use crate::refusal::FieldProblem;
use crate::topology::{ListMerge, NodeId, Shape, Topology};
use crate::view::{Place, is_deep};

/// How many problems are named: each carries its path, which may be long.
const PROBLEMS_MAX: usize = 1_000;

/// All that is wrong below a place, up to a limit.
pub fn check(topology: &Topology, node: NodeId, value: &Value, path: &str) -> Vec<FieldProblem> {
    let mut problems = Vec::new();
    walk(Place::new(topology, node), value, &mut path.to_owned(), &mut problems);
    problems
}

fn walk(place: Place<'_>, value: &Value, path: &mut String, problems: &mut Vec<FieldProblem>) {
    if !place.topology.has_keyed_list(place.node) {
        return;
    }
    let back = path.len();
    match value {
        Value::Object(object) => {
            for (name, value) in object.iter().filter(|(_, value)| is_deep(value)) {
                push_field(path, name);
                walk(place.field(name), value, path, problems);
                path.truncate(back);
            }
        }
        Value::Array(array) => {
            if let Shape::List { merge, .. } = place.topology.shape(place.node) {
                elements(place, merge, array, path, problems);
            }
            for (index, item) in array.iter().enumerate().filter(|(_, item)| is_deep(item)) {
                path.push_str(&format!("[{index}]"));
                walk(place.item(), item, path, problems);
                path.truncate(back);
            }
        }
        _ => {}
    }
}

fn elements(
    place: Place<'_>,
    merge: &ListMerge,
    array: &[Value],
    path: &str,
    problems: &mut Vec<FieldProblem>,
) {
    let mut seen: BTreeMap<Step, usize> = BTreeMap::new();
    for (index, item) in array.iter().enumerate() {
        if problems.len() >= PROBLEMS_MAX {
            return;
        }
        let step = match merge {
            ListMerge::Atomic => return,
            ListMerge::Set => Scalar::of(item)
                .map(Step::Member)
                .ok_or_else(|| "must be a string, a number, true or false, as a member of a set".to_owned()),
            ListMerge::Map(_) => place
                .step_to(item)
                .map_err(|key| format!("needs {key:?}, by which the items of this list are told apart")),
        };
        match step {
            Err(message) => problems.push(FieldProblem::new(format!("{path}[{index}]"), message)),
            Ok(step) => match seen.get(&step) {
                Some(first) => problems.push(FieldProblem::new(
                    format!("{path}{}", Step::print(std::slice::from_ref(&step))),
                    format!("is there twice, at {first} and {index}: remove one"),
                )),
                None => drop(seen.insert(step, index)),
            },
        }
    }
}
