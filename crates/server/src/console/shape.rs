//! Objects as JSON for pages: as the command line prints them, without the managers of their fields.

use serde_json::{Map, Value, json};
use setpoint_api::setpoint::v1::{Metadata, Object};

pub fn object(object: Object) -> Value {
    let Object { kind, metadata, spec, status } = object;
    let mut shaped = Map::new();
    shaped.insert("kind".to_owned(), kind.into());
    shaped.insert("metadata".to_owned(), meta(metadata.unwrap_or_default()));
    for (name, bytes) in [("spec", spec), ("status", status)] {
        // What is stored was checked to be JSON; what was not asked for is empty.
        if let Ok(value) = serde_json::from_slice::<Value>(&bytes) {
            shaped.insert(name.to_owned(), value);
        }
    }
    Value::Object(shaped)
}

fn meta(metadata: Metadata) -> Value {
    let mut shaped = Map::new();
    let mut put = |name: &str, value: Value, says_something: bool| {
        if says_something {
            shaped.insert(name.to_owned(), value);
        }
    };
    let owners = metadata
        .owners
        .iter()
        .map(|owner| json!({ "kind": owner.kind, "name": owner.name, "uid": owner.uid }));
    let owners: Vec<Value> = owners.collect();
    put("name", metadata.name.into(), true);
    put("namespace", metadata.namespace.as_str().into(), !metadata.namespace.is_empty());
    put("uid", metadata.uid.into(), true);
    put("revision", metadata.revision.into(), true);
    put("generation", metadata.generation.into(), true);
    put("createdMs", metadata.created_ms.into(), true);
    put("deletedMs", metadata.deleted_ms.into(), metadata.deleted_ms.is_some());
    put("finalizers", json!(metadata.finalizers), !metadata.finalizers.is_empty());
    put("owners", json!(owners), !owners.is_empty());
    put("labels", json!(metadata.labels), !metadata.labels.is_empty());
    put("annotations", json!(metadata.annotations), !metadata.annotations.is_empty());
    Value::Object(shaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_shown_as_it_is_stored_and_without_what_it_does_not_have() {
        let stored = Object {
            kind: "Node".to_owned(),
            metadata: Some(Metadata { name: "a".to_owned(), revision: 7, ..Metadata::default() }),
            spec: br#"{"zone":"<b>"}"#.to_vec().into(),
            status: Vec::new().into(),
        };
        let expected = json!({
            "kind": "Node",
            "metadata": { "name": "a", "uid": "", "revision": 7, "generation": 0, "createdMs": 0 },
            "spec": { "zone": "<b>" },
        });
        assert_eq!(object(stored), expected);
    }
}
