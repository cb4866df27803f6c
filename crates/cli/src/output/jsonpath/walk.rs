//! From steps and a value to what they find.

use std::cmp::Ordering;

use serde_json::Value;

use super::{Filter, Operand, Path, Relation, Step};

/// Values that a walk may have in hand at a time: a path of many `..` would otherwise multiply them.
const FOUND_MAX: usize = 1_000_000;

pub fn find<'v>(path: &Path, root: &'v Value, here: &'v Value) -> Vec<&'v Value> {
    let mut found = vec![if path.from_root { root } else { here }];
    for step in &path.steps {
        let mut next = Vec::new();
        for value in found {
            take(step, root, value, &mut next);
            if next.len() > FOUND_MAX {
                break;
            }
        }
        found = next;
    }
    found
}

fn take<'v>(step: &Step, root: &'v Value, value: &'v Value, next: &mut Vec<&'v Value>) {
    match step {
        Step::Field(name) => next.extend(value.get(name)),
        Step::Several(names) => next.extend(names.iter().filter_map(|name| value.get(name))),
        Step::Index(index) => {
            if let Some(elements) = value.as_array() {
                next.extend(place(*index, elements.len()).and_then(|at| elements.get(at)));
            }
        }
        Step::Slice(first, last) => {
            if let Some(elements) = value.as_array() {
                let clamp = |at: i64| place(at, elements.len()).unwrap_or(0).min(elements.len());
                let first = first.map_or(0, clamp);
                let last = last.map_or(elements.len(), clamp);
                next.extend(elements.get(first..last.max(first)).into_iter().flatten());
            }
        }
        Step::Every => next.extend(children(value)),
        Step::Deep(name) => deep(name.as_deref(), value, next),
        Step::Filter(filter) => {
            let kept = children(value).filter(|value| holds(filter, root, value));
            next.extend(kept);
        }
    }
}

/// Counted from the end if it is negative. None before the beginning.
fn place(index: i64, count: usize) -> Option<usize> {
    match usize::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => count.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
    }
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(elements) => Box::new(elements.iter()),
        Value::Object(fields) => Box::new(fields.values()),
        _ => Box::new(std::iter::empty()),
    }
}

fn deep<'v>(name: Option<&str>, value: &'v Value, next: &mut Vec<&'v Value>) {
    match name {
        Some(name) => next.extend(value.get(name)),
        None => next.push(value),
    }
    if next.len() <= FOUND_MAX {
        children(value).for_each(|child| deep(name, child, next));
    }
}

fn holds(filter: &Filter, root: &Value, here: &Value) -> bool {
    match filter {
        Filter::Exists(path) => !find(path, root, here).is_empty(),
        Filter::Compare(left, relation, right) => {
            let (left, right) = (operand(left, root, here), operand(right, root, here));
            match (left, right) {
                (Some(left), Some(right)) => compare(left, *relation, right),
                _ => false,
            }
        }
    }
}

fn operand<'v>(operand: &'v Operand, root: &'v Value, here: &'v Value) -> Option<&'v Value> {
    match operand {
        Operand::Value(value) => Some(value),
        Operand::Path(path) => find(path, root, here).first().copied(),
    }
}

fn compare(left: &Value, relation: Relation, right: &Value) -> bool {
    let order = order(left, right);
    match relation {
        Relation::Equal => order == Some(Ordering::Equal) || left == right,
        Relation::Unequal => order.map_or(left != right, |order| order != Ordering::Equal),
        Relation::Less => order == Some(Ordering::Less),
        Relation::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Relation::More => order == Some(Ordering::Greater),
        Relation::MoreOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    }
}

/// Numbers and texts have an order; other values are only equal or not.
pub fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64()?.partial_cmp(&right.as_f64()?),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        _ => None,
    }
}
