//! One example per kind. It is what a user would write and what the controllers would report: with as many fields as make
//! sense together, all of them known, valid, and the same after being read into the Rust types.

mod settle;

use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use setpoint_types::object::to_json;
use setpoint_types::{KindType, Object, kinds, registry};

use settle::{fill, topology};

fn example(kind: &str) -> Object {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/examples/{kind}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut object: Object = serde_json::from_str(&text).expect("an object");
    assert_eq!(object.kind, kind);
    fill(&topology(registry::kind(kind).expect("a kind")), &mut object.spec);
    object
}

#[test]
fn every_kind_has_an_example_without_problems() {
    for kind in registry::kinds() {
        let object = example(kind.info.name);
        assert_eq!(kind.validate(None, &object), [], "{}", kind.info.name);
        assert_eq!(kind.validate(Some(&object), &object), [], "{} unchanged", kind.info.name);
    }
}

#[test]
fn examples_use_only_fields_that_exist() {
    for kind in registry::kinds() {
        let object = example(kind.info.name);
        for (name, value) in [("spec", &object.spec), ("status", &object.status)] {
            let schema = &kind.schema()["properties"][name];
            check_known(schema, value, &format!("{} .{name}", kind.info.name));
        }
    }
}

fn check_known(schema: &Value, value: &Value, path: &str) {
    if schema["x-setpoint-preserve-unknown"] == true {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let path = format!("{path}.{name}");
                let known = schema["properties"].get(name).or_else(|| schema.get("additionalProperties"));
                check_known(known.unwrap_or_else(|| panic!("{path} does not exist")), field, &path);
            }
        }
        Value::Array(elements) => {
            elements.iter().for_each(|element| check_known(&schema["items"], element, path));
        }
        _ => {}
    }
}

#[test]
fn defaults_are_filled_in_once() {
    for kind in registry::kinds() {
        let spec = example(kind.info.name).spec;
        let mut again = spec.clone();
        fill(&topology(kind), &mut again);
        assert_eq!(again, spec, "{}", kind.info.name);
    }
}

/// What a kind's types write is what they read, and is valid.
fn check_types<K: KindType>() {
    let kind = registry::kind(K::INFO.name).expect("a kind");
    let object = example(K::INFO.name);
    let rewritten = Object {
        spec: rewrite::<K::Spec>(&object.spec),
        status: match object.status {
            Value::Null => Value::Null,
            ref status => rewrite::<K::Status>(status),
        },
        ..object
    };
    assert_eq!(kind.validate(None, &rewritten), [], "{}", K::INFO.name);
}

fn rewrite<T: Serialize + DeserializeOwned>(json: &Value) -> Value {
    let written = to_json(&serde_json::from_value::<T>(json.clone()).expect("what is valid can be read"));
    let again = to_json(&serde_json::from_value::<T>(written.clone()).expect("what is written can be read"));
    assert_eq!(written, again);
    check_kept(json, &written, "");
    written
}

/// Every field of `before` is in `after`. Amounts may be written otherwise.
fn check_kept(before: &Value, after: &Value, path: &str) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (name, field) in before {
                let path = format!("{path}.{name}");
                let kept = after.get(name).unwrap_or_else(|| panic!("{path} was lost"));
                check_kept(field, kept, &path);
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            assert_eq!(before.len(), after.len(), "{path}");
            before.iter().zip(after).for_each(|(before, after)| check_kept(before, after, path));
        }
        (before, after) => {
            assert!(!after.is_null() && (before == after || after.is_string()), "{path}: {before} {after}");
        }
    }
}

#[test]
fn what_the_types_write_they_read() {
    check_types::<kinds::AdmissionPolicy>();
    check_types::<kinds::Autoscaler>();
    check_types::<kinds::Binding>();
    check_types::<kinds::Decision>();
    check_types::<kinds::Event>();
    check_types::<kinds::KindDefinition>();
    check_types::<kinds::Lease>();
    check_types::<kinds::Namespace>();
    check_types::<kinds::Node>();
    check_types::<kinds::PlacementPolicy>();
    check_types::<kinds::PriorityClass>();
    check_types::<kinds::Quota>();
    check_types::<kinds::Replica>();
    check_types::<kinds::ReplicaSet>();
    check_types::<kinds::Role>();
    check_types::<kinds::RoleBinding>();
    check_types::<kinds::Workload>();
}

#[test]
fn columns_and_selectable_fields_exist() {
    for kind in registry::kinds() {
        let paths = kind.info.columns.iter().map(|column| column.path);
        let fields = kind.info.selectable_fields.iter().copied();
        for path in paths.chain(fields) {
            let mut schema = kind.schema();
            if path.starts_with(".metadata") {
                continue;
            }
            for part in path.trim_start_matches('.').split('.') {
                let name = part.split('[').next().unwrap();
                schema = &schema["properties"][name];
                if part.contains('[') {
                    schema = &schema["items"];
                }
            }
            assert!(!schema.is_null(), "{} {path}", kind.info.name);
            if !path.starts_with('.') {
                assert!(
                    schema["type"] == "string" || schema["type"] == "integer" || schema["type"] == "boolean",
                    "{path}"
                );
            }
        }
    }
}
