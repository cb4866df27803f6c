//! What can be said about a document without asking the server: fields its kind does not have, and values of the wrong type.
//!
//! The server says more, and has the last word; but what is wrong in a file is best said before any of it is applied.

use serde_json::{Map, Value};

use super::located::{Entry, Located, Node, Place};
use super::places::step;
use crate::near;

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    pub place: Place,
    pub path: String,
    pub message: String,
}

/// Complaints beyond these are not looked for: nobody reads them.
const COMPLAINTS_MAX: usize = 32;

/// Checks a value against its schema. `path` is where it is in the document.
pub fn check(value: &Located, schema: &Value, path: &str, found: &mut Vec<Complaint>) {
    if found.len() >= COMPLAINTS_MAX || value.is_null() {
        return;
    }
    let Some(words) = schema.as_object() else { return };
    if let Some(expected) = wrong_type(value, words) {
        found.push(Complaint {
            place: value.place,
            path: path.to_owned(),
            message: format!("must be {expected}, is {}", value.type_name()),
        });
        return;
    }
    match &value.node {
        Node::Leaf(_) => {}
        Node::List(elements) => {
            if let Some(items) = words.get("items") {
                for (index, element) in elements.iter().enumerate() {
                    check(element, items, &format!("{path}[{index}]"), found);
                }
            }
        }
        Node::Map(entries) => {
            for entry in entries {
                let path = format!("{path}{}", step(&entry.name));
                match words.get("properties").and_then(|it| it.get(&entry.name)) {
                    Some(schema) => check(&entry.value, schema, &path, found),
                    None => check_other(entry, words, &path, found),
                }
            }
        }
    }
}

/// A field that is not named: of a map, or of nothing.
fn check_other(entry: &Entry, words: &Map<String, Value>, path: &str, found: &mut Vec<Complaint>) {
    let is_true = |word: &str| words.get(word).is_some_and(|it| *it == Value::Bool(true));
    match words.get("additionalProperties") {
        Some(Value::Bool(false)) | None => {
            let names = words.get("properties").and_then(Value::as_object);
            // A schema that names nothing says nothing.
            let Some(names) = names.filter(|_| !is_true("x-setpoint-preserve-unknown")) else { return };
            let hint = near::hint(&entry.name, names.keys().map(String::as_str));
            found.push(Complaint {
                place: entry.place,
                path: path.to_owned(),
                message: format!("is no field of this kind{hint}"),
            });
        }
        Some(schema) => check(&entry.value, schema, path, found),
    }
}

/// The type it must be of, if it is not.
fn wrong_type(value: &Located, words: &Map<String, Value>) -> Option<String> {
    let types: Vec<&str> = match words.get("type")? {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let is_of = |name: &&str| match (*name, &value.node) {
        ("object", Node::Map(_)) | ("array", Node::List(_)) => true,
        ("string", Node::Leaf(it)) => it.is_string(),
        ("boolean", Node::Leaf(it)) => it.is_boolean(),
        ("integer", Node::Leaf(it)) => it.is_i64() || it.is_u64(),
        ("number", Node::Leaf(it)) => it.is_number(),
        _ => false,
    };
    if types.iter().any(is_of) || types.is_empty() {
        return None;
    }
    let named: Vec<&str> = types.into_iter().map(for_people).collect();
    Some(named.join(" or "))
}

fn for_people(name: &str) -> &str {
    match name {
        "object" => "an object",
        "array" => "a list",
        "string" => "a text",
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        other => other,
    }
}
