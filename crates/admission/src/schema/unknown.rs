//! Fields that the schema does not know.

use serde_json::Value;

use super::node::{Node, Values};
use crate::path::{Path, Step};

/// Where they are.
pub fn find_unknown(node: &Node, value: &Value, from: &Path) -> Vec<Path> {
    let mut found = Vec::new();
    find(node, value, &mut from.clone(), &mut found);
    found
}

fn find(node: &Node, value: &Value, at: &mut Path, found: &mut Vec<Path>) {
    let mut below = |step: Step, node: Option<&Node>, value: &Value| {
        at.push(step);
        match node {
            Some(node) => find(node, value, at, found),
            None => found.push(at.clone()),
        }
        at.pop();
    };
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let place = node.field(name);
                if place.is_some() || !keeps_unknown(node) {
                    below(Step::Field(name.clone()), place, field);
                }
            }
        }
        Value::Array(items) => {
            if let Some(item) = node.item() {
                for (index, value) in items.iter().enumerate() {
                    below(Step::Index(index), Some(item), value);
                }
            }
        }
        _ => {}
    }
}

/// A place for anything, or one whose own type is wrong: that is reported once, as such.
pub fn keeps_unknown(node: &Node) -> bool {
    node.preserve_unknown || matches!(node.values, Values::Any) || !node.types.allows("object")
}
