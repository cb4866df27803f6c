//! Patches that a policy's expression yields, applied to an object: merge patches (RFC 7396) and JSON patches (RFC 6902).
//!
//! Clients' patches are applied in `objects`, where they also move field ownership. Here a patch comes out of an expression,
//! and what it may add up to is bounded: a patch that copies a value into itself doubles it with every step.

use serde::Deserialize;
use serde_json::{Map, Value};
use setpoint_types::kinds::MutationType;

use crate::limits::{MUTATED_BYTES_MAX, MUTATED_DEPTH_MAX, PATCH_STEPS_MAX};
use crate::size::{depth, written_bytes};

/// Applies what an expression yielded.
pub fn apply(object: &mut Value, kind: MutationType, patch: Value) -> Result<(), String> {
    match (kind, patch) {
        (MutationType::Merge, patch @ Value::Object(_)) => merge(object, patch),
        (MutationType::Merge, _) => return Err("yields no map to merge".to_owned()),
        (MutationType::JsonPatch, Value::Array(steps)) => step_by_step(object, steps)?,
        (MutationType::JsonPatch, _) => return Err("yields no list of steps".to_owned()),
    }
    check_size(object)
}

fn check_size(object: &Value) -> Result<(), String> {
    if written_bytes(object) > MUTATED_BYTES_MAX {
        return Err(format!("makes the object larger than {MUTATED_BYTES_MAX} bytes"));
    }
    if depth(object) > MUTATED_DEPTH_MAX {
        return Err(format!("makes the object nest deeper than {MUTATED_DEPTH_MAX} levels"));
    }
    Ok(())
}

fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(&name);
        } else {
            merge(fields.entry(name).or_insert(Value::Null), value);
        }
    }
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Step {
    Add { path: String, value: Value },
    Remove { path: String },
    Replace { path: String, value: Value },
    Move { from: String, path: String },
    Copy { from: String, path: String },
    Test { path: String, value: Value },
}

fn step_by_step(object: &mut Value, steps: Vec<Value>) -> Result<(), String> {
    if steps.len() > PATCH_STEPS_MAX {
        return Err(format!("yields more than {PATCH_STEPS_MAX} steps"));
    }
    for (index, step) in steps.into_iter().enumerate() {
        let step =
            serde_json::from_value(step).map_err(|error| format!("step {index} is not one: {error}"))?;
        perform(object, step).map_err(|problem| format!("step {index} {problem}"))?;
    }
    Ok(())
}

fn perform(object: &mut Value, step: Step) -> Result<(), String> {
    match step {
        Step::Add { path, value } => add(object, &path, value),
        Step::Remove { path } => remove(object, &path).map(drop),
        Step::Replace { path, value } => {
            *object.pointer_mut(&path).ok_or_else(|| nothing_at(&path))? = value;
            Ok(())
        }
        Step::Move { from, path } => {
            if path.starts_with(&format!("{from}/")) {
                return Err(format!("moves {from} into itself"));
            }
            let value = remove(object, &from)?;
            add(object, &path, value)
        }
        Step::Copy { from, path } => {
            let value = object.pointer(&from).ok_or_else(|| nothing_at(&from))?.clone();
            add(object, &path, value)?;
            // At once, and not only at the end: each step may double what the last one made.
            check_size(object)
        }
        Step::Test { path, value } => match object.pointer(&path) {
            Some(found) if *found == value => Ok(()),
            _ => Err(format!("finds another value at {path}")),
        },
    }
}

fn add(object: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        *object = value;
        return Ok(());
    }
    let (holder, name) = split(path)?;
    match object.pointer_mut(holder) {
        Some(Value::Object(fields)) => {
            fields.insert(name, value);
            Ok(())
        }
        Some(Value::Array(items)) => {
            let index = if name == "-" { items.len() } else { position(&name)? };
            if index > items.len() {
                return Err(nothing_at(path));
            }
            items.insert(index, value);
            Ok(())
        }
        _ => Err(nothing_at(holder)),
    }
}

fn remove(object: &mut Value, path: &str) -> Result<Value, String> {
    let (holder, name) = split(path)?;
    let removed = match object.pointer_mut(holder) {
        Some(Value::Object(fields)) => fields.remove(&name),
        Some(Value::Array(items)) => {
            Some(position(&name)?).filter(|at| *at < items.len()).map(|at| items.remove(at))
        }
        _ => None,
    };
    removed.ok_or_else(|| nothing_at(path))
}

/// The pointer to what holds it, and its name in there.
fn split(path: &str) -> Result<(&str, String), String> {
    let (holder, name) =
        path.rsplit_once('/').ok_or_else(|| format!("has the path {path:?}, which is none"))?;
    Ok((holder, name.replace("~1", "/").replace("~0", "~")))
}

fn position(name: &str) -> Result<usize, String> {
    name.parse().map_err(|_| format!("takes {name:?} for a position in a list"))
}

fn nothing_at(path: &str) -> String {
    format!("finds nothing at {path:?}")
}
