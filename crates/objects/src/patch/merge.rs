//! JSON merge patch, RFC 7396.

use serde_json::{Map, Value};

use super::PatchError;

/// Merges `patch` into a copy of `document`. A patch of an object is an object.
pub fn apply_merge(document: &Value, patch: &Value) -> Result<Value, PatchError> {
    if !patch.is_object() {
        let message = "a merge patch is a JSON object".to_owned();
        return Err(PatchError::Malformed { operation: None, message });
    }
    let mut result = document.clone();
    merge(&mut result, patch);
    Ok(result)
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            merge(target.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The examples of RFC 7396, appendix A, as far as a patch of an object can be one.
    #[test]
    fn the_examples_of_the_standard() {
        for (document, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            assert_eq!(apply_merge(&document, &patch), Ok(result));
        }
        assert!(apply_merge(&json!({}), &json!(["c"])).is_err());
    }
}
