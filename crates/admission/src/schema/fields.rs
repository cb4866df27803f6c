//! What a schema says about fields that JSON Schema has no word for: which may not change, and which lists are sets or maps.

use std::collections::BTreeSet;

use serde_json::Value;

use super::node::{ListType, Node};
use crate::path::{Path, Step};
use crate::problem::Finding;

/// Problems of `new`, given what was there before.
pub fn check_fields(node: &Node, old: Option<&Value>, new: &Value, from: &Path) -> Vec<Finding> {
    let mut walk = Walk { at: from.clone(), problems: Vec::new() };
    walk.place(node, old, new);
    walk.problems
}

struct Walk {
    at: Path,
    problems: Vec<Finding>,
}

impl Walk {
    fn place(&mut self, node: &Node, old: Option<&Value>, new: &Value) {
        // What was let in is left alone until somebody changes it.
        if old == Some(new) {
            return;
        }
        match new {
            Value::Object(fields) => {
                for (name, place) in &node.fields {
                    self.immutable(name, place, old, new);
                }
                for (name, value) in fields {
                    if let Some(place) = node.field(name) {
                        self.below(
                            Step::Field(name.clone()),
                            place,
                            old.and_then(|old| old.get(name)),
                            value,
                        );
                    }
                }
            }
            Value::Array(items) => self.list(node, old, items),
            _ => {}
        }
    }

    fn list(&mut self, node: &Node, old: Option<&Value>, items: &[Value]) {
        let Some(item) = node.item() else { return };
        let before = old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut seen = BTreeSet::new();
        for (index, value) in items.iter().enumerate() {
            let identity = match &node.list_type {
                ListType::Atomic => None,
                ListType::Set => Some(value.to_string()),
                ListType::Map(keys) => Some(
                    keys.iter()
                        .map(|key| value.get(key).map_or(String::new(), Value::to_string) + ",")
                        .collect(),
                ),
            };
            if identity.is_some_and(|identity| !seen.insert(identity)) {
                let which = match &node.list_type {
                    ListType::Map(keys) => {
                        format!("has the same {} as an element before it", keys.join(" and "))
                    }
                    _ => "is in the set already".to_owned(),
                };
                self.problem(Step::Index(index), which);
            }
            self.below(Step::Index(index), item, node.counterpart(value, before), value);
        }
    }

    fn immutable(&mut self, name: &str, place: &Node, old: Option<&Value>, new: &Value) {
        let Some(before) = old.and_then(|old| old.get(name)).filter(|_| place.immutable) else { return };
        if new.get(name) != Some(before) {
            self.problem(Step::Field(name.to_owned()), "may not change once it is set".to_owned());
        }
    }

    fn below(&mut self, step: Step, node: &Node, old: Option<&Value>, new: &Value) {
        self.at.push(step);
        self.place(node, old, new);
        self.at.pop();
    }

    fn problem(&mut self, step: Step, message: String) {
        let mut path = self.at.clone();
        path.push(step);
        self.problems.push(Finding { path, message });
    }
}
