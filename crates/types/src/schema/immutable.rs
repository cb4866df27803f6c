//! Fields that keep the value they were created with.

use serde_json::Value;

use super::IMMUTABLE;
use crate::Problems;

/// Reports every field the schema calls immutable that `new` changes or leaves out. A field `old` did not have may still be
/// set: otherwise no object could ever get a field that a later version introduces.
pub fn check_immutable(schema: &Value, old: &Value, new: &Value, problems: &mut Problems) {
    if old.is_null() {
        return;
    }
    if schema[IMMUTABLE] == true {
        if old != new {
            problems.report("cannot be changed");
        }
        return;
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        problems.field(name, |problems| check_immutable(property, &old[name], &new[name], problems));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(old: Value, new: Value) -> Vec<String> {
        let fixed = json!({"x-setpoint-immutable": true});
        let schema = json!({"properties": {"a": fixed, "inner": {"properties": {"b": fixed}}, "c": {}}});
        let mut problems = Problems::new();
        check_immutable(&schema, &old, &new, &mut problems);
        problems.into_found().into_iter().map(|problem| problem.path).collect()
    }

    #[test]
    fn changing_or_removing_is_reported_and_adding_is_not() {
        let old = json!({"a": [1], "inner": {"b": 1}, "c": 1});
        assert!(paths(old.clone(), json!({"a": [1], "inner": {"b": 1}, "c": 2})).is_empty());
        assert_eq!(paths(old.clone(), json!({"a": [1, 2], "inner": {"b": 2}})), [".a", ".inner.b"]);
        assert_eq!(paths(old, json!(null)), [".a", ".inner.b"]);
        assert!(paths(json!({"c": 1}), json!({"a": 1, "inner": {"b": 1}})).is_empty());
        assert!(paths(json!(null), json!({"a": 1})).is_empty());
    }
}
