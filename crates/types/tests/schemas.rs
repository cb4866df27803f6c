//! The schemas users see: stored as files, so that a change of a kind shows as a change of its schema.
//!
//! Regenerate with `UPDATE_GOLDENFILES=1` and read the difference: a field that disappears or changes its type breaks objects
//! that are stored somewhere.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;
use setpoint_types::registry;
use setpoint_types::schema::metadata_schema;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/schemas")
}

fn schemas() -> Vec<(String, Value)> {
    let kinds = registry::kinds().iter().map(|kind| (kind.info.name.to_owned(), kind.schema().clone()));
    kinds.chain([("metadata".to_owned(), metadata_schema())]).collect()
}

#[test]
fn every_schema_is_as_stored() {
    let update = std::env::var_os("UPDATE_GOLDENFILES").is_some();
    for (name, schema) in schemas() {
        let path = folder().join(format!("{name}.json"));
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if update {
            std::fs::write(&path, text).unwrap();
        } else {
            let stored = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(stored == text, "{} differs: run with UPDATE_GOLDENFILES=1 and look", path.display());
        }
    }
}

#[test]
fn no_schema_is_stored_for_a_kind_there_is_not() {
    let expected: BTreeSet<String> = schemas().into_iter().map(|(name, _)| name + ".json").collect();
    let stored = std::fs::read_dir(folder()).unwrap();
    let stored: BTreeSet<String> = stored.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(stored, expected);
}

/// All that `schema::check`, the defaults and those who merge have to understand.
const WORDS: &[&str] = &[
    "additionalProperties",
    "default",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "properties",
    "propertyNames",
    "required",
    "type",
    "x-setpoint-immutable",
    "x-setpoint-list-map-keys",
    "x-setpoint-list-type",
    "x-setpoint-map-type",
    "x-setpoint-preserve-unknown",
];

#[test]
fn schemas_use_only_words_that_are_understood_and_describe_every_field() {
    for (name, schema) in schemas() {
        let parts = match name.as_str() {
            "metadata" => vec![&schema],
            _ => vec![&schema["properties"]["spec"], &schema["properties"]["status"]],
        };
        for part in parts {
            check(part, &name);
        }
    }
}

fn check(schema: &Value, path: &str) {
    let words = schema.as_object().unwrap_or_else(|| panic!("{path} has no schema: {schema}"));
    for word in words.keys() {
        assert!(WORDS.contains(&word.as_str()), "{path} uses {word}");
    }
    assert!(schema["type"].is_string() || schema["type"].is_array(), "{path} has no type");
    check_list(schema, path);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let description = property["description"].as_str().unwrap_or_default();
        assert!(!description.is_empty(), "{path} is not described");
        assert!(!description.contains("\n\n"), "{path} has more than one paragraph");
        check(property, &path);
    }
    for word in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(word).filter(|_| schema["x-setpoint-preserve-unknown"] != true) {
            check(inner, &format!("{path}[]"));
        }
    }
}

fn check_list(schema: &Value, path: &str) {
    let keys = schema["x-setpoint-list-map-keys"].as_array();
    assert_eq!(keys.is_some(), schema["x-setpoint-list-type"] == "map", "{path}");
    let item = &schema["items"];
    for key in keys.into_iter().flatten() {
        let key = key.as_str().expect("keys are names");
        assert!(!item["properties"][key].is_null(), "{path} has no {key} to tell its elements apart");
        let required = item["required"].as_array().is_some_and(|it| it.iter().any(|name| name == key));
        assert!(required, "{path}: {key} tells elements apart and must be required");
    }
    if path.ends_with(".conditions") {
        assert_eq!(schema["x-setpoint-list-map-keys"], serde_json::json!(["type"]), "{path}");
    }
}
