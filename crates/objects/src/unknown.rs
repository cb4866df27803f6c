//! Fields the schema does not know, and fields that were there twice: refused, or dropped and named, or just dropped.
//!
//! Dropped they are always, unless refused: what no schema knows, nobody validates, defaults or merges.

use serde_json::Value;

use crate::fields::push_field;
use crate::refusal::FieldProblem;
use crate::topology::{NodeId, Topology};
use crate::view::is_deep;

/// What becomes of unknown and repeated fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Refused, all of them named.
    #[default]
    Strict,
    /// Dropped, and named in warnings.
    Warn,
    /// Dropped.
    Ignore,
}

impl FieldValidation {
    /// Sorts what was found into warnings, or into a refusal.
    pub fn judge(self, mut found: Vec<FieldProblem>) -> Result<Vec<String>, Vec<FieldProblem>> {
        found.sort();
        found.dedup();
        match self {
            Self::Strict if !found.is_empty() => Err(found),
            Self::Strict | Self::Ignore => Ok(Vec::new()),
            Self::Warn => Ok(found.iter().map(ToString::to_string).collect()),
        }
    }
}

/// How many unknown fields are named.
const UNKNOWN_MAX: usize = 32;

/// Drops unknown fields, and says which. `path` is where `value` is in the object.
pub fn prune(value: &mut Value, topology: &Topology, node: NodeId, path: &str) -> Vec<FieldProblem> {
    let mut found = Vec::new();
    walk(value, topology, node, &mut path.to_owned(), &mut found);
    found
}

fn walk(
    value: &mut Value,
    topology: &Topology,
    node: NodeId,
    path: &mut String,
    found: &mut Vec<FieldProblem>,
) {
    // Below here the schema says nothing, so nothing is unknown.
    if node == NodeId::ANY {
        return;
    }
    let back = path.len();
    match value {
        Value::Object(object) => {
            let mut all_known = true;
            for (name, value) in object.iter_mut() {
                match topology.field(node, name) {
                    Some(field) if is_deep(value) => {
                        push_field(path, name);
                        walk(value, topology, field, path, found);
                        path.truncate(back);
                    }
                    Some(_) => {}
                    None => {
                        all_known = false;
                        if found.len() < UNKNOWN_MAX {
                            push_field(path, name);
                            let message = "is no field of this kind: correct or remove it";
                            found.push(FieldProblem::new(path.clone(), message));
                            path.truncate(back);
                        }
                    }
                }
            }
            if !all_known {
                object.retain(|name, _| topology.field(node, name).is_some());
            }
        }
        Value::Array(array) => {
            let items = topology.items(node);
            for (index, item) in array.iter_mut().enumerate().filter(|(_, item)| is_deep(item)) {
                path.push_str(&format!("[{index}]"));
                walk(item, topology, items, path, found);
                path.truncate(back);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_fields_are_dropped_and_named() {
        let schema = json!({"properties": {"spec": {"properties": {
            "replicas": {"type": "integer"},
            "ports": {"type": "array", "items": {"properties": {"port": {"type": "integer"}}}},
            "free": {"type": "object"},
            "kept": {"properties": {"a": {}}, "x-setpoint-preserve-unknown": true},
        }}}});
        let topology = Topology::of_kind(&schema).expect("a schema");
        let mut value = json!({
            "replicas": 1, "replica": 2, "ports": [{"port": 1, "prot": 2}],
            "free": {"x": {"y": 1}}, "kept": {"a": 1, "b": 2},
        });
        let found = prune(&mut value, &topology, topology.spec(), ".spec");
        let paths: Vec<&str> = found.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, [".spec.ports[0].prot", ".spec.replica"]);
        assert_eq!(
            value,
            json!({"replicas": 1, "ports": [{"port": 1}], "free": {"x": {"y": 1}}, "kept": {"a": 1, "b": 2}})
        );
        assert_eq!(FieldValidation::Strict.judge(found.clone()), Err(found.clone()));
        assert_eq!(FieldValidation::Ignore.judge(found.clone()), Ok(vec![]));
        assert_eq!(FieldValidation::Warn.judge(found).expect("warnings").len(), 2);
    }
}
