//! Whether a value has the shape its schema says; every problem at once.
//!
//! Fields the schema does not name are no problem here: what becomes of them is decided where requests come in.

use serde_json::{Map, Value};

use super::format::check_format;
use super::{LIST_MAP_KEYS, LIST_TYPE};
use crate::Problems;

/// Reports what is wrong with a value.
pub fn check(schema: &Value, value: &Value, problems: &mut Problems) {
    let Some(words) = schema.as_object() else { return };
    if let Some(expected) = words.get("type")
        && !has_type(expected, value)
    {
        problems.report(format!("must be {}, is {}", type_names(expected), type_name(value)));
        return;
    }
    if let Some(Value::Array(allowed)) = words.get("enum")
        && !allowed.contains(value)
    {
        let allowed: Vec<String> = allowed.iter().map(plain).collect();
        problems.report(format!("must be one of {}, is {}", allowed.join(", "), plain(value)));
        return;
    }
    if let Some(format) = words.get("format").and_then(Value::as_str)
        && let Err(message) = check_format(format, value)
    {
        problems.report(message);
    }
    check_bounds(words, value, problems);
    match value {
        Value::Object(fields) => check_object(words, fields, problems),
        Value::Array(elements) => check_list(words, elements, problems),
        _ => {}
    }
}

fn check_object(words: &Map<String, Value>, fields: &Map<String, Value>, problems: &mut Problems) {
    for name in words.get("required").and_then(Value::as_array).into_iter().flatten() {
        let Some(name) = name.as_str() else { continue };
        if !fields.contains_key(name) {
            problems.report_at(name, "is required");
        }
    }
    let properties = words.get("properties").and_then(Value::as_object);
    for (name, field) in fields {
        problems.field(name, |problems| match properties.and_then(|properties| properties.get(name)) {
            Some(property) => check(property, field, problems),
            None => {
                check_key(words, name, problems);
                if let Some(others) = words.get("additionalProperties") {
                    check(others, field, problems);
                }
            }
        });
    }
}

/// The key of a map's entry is wrong where the entry is.
fn check_key(words: &Map<String, Value>, name: &str, problems: &mut Problems) {
    let Some(format) = words.get("propertyNames").and_then(|names| names["format"].as_str()) else { return };
    if let Err(message) = check_format(format, &Value::from(name)) {
        problems.report(format!("as a key {message}"));
    }
}

fn check_list(words: &Map<String, Value>, elements: &[Value], problems: &mut Problems) {
    let same = |one: &Value, other: &Value| match words.get(LIST_TYPE).and_then(Value::as_str) {
        Some("set") => one == other,
        Some("map") => {
            let keys = words.get(LIST_MAP_KEYS).and_then(Value::as_array);
            keys.into_iter().flatten().filter_map(Value::as_str).all(|key| one.get(key) == other.get(key))
        }
        _ => false,
    };
    for (index, element) in elements.iter().enumerate() {
        problems.index(index, |problems| {
            if let Some(items) = words.get("items") {
                check(items, element, problems);
            }
            if let Some(first) = elements[..index].iter().position(|earlier| same(earlier, element)) {
                problems.report(format!("is the same as [{first}]{}", by_keys(words)));
            }
        });
    }
}

fn by_keys(words: &Map<String, Value>) -> String {
    let keys = words.get(LIST_MAP_KEYS).and_then(Value::as_array);
    let keys: Vec<&str> = keys.into_iter().flatten().filter_map(Value::as_str).collect();
    if keys.is_empty() { String::new() } else { format!(" by {}", keys.join(" and ")) }
}

fn check_bounds(words: &Map<String, Value>, value: &Value, problems: &mut Problems) {
    let limit = |word: &str| words.get(word).and_then(Value::as_u64);
    match value {
        Value::Number(number) => {
            // Both fit: an integer of JSON is an i64 or a u64.
            let integer = |number: &serde_json::Number| {
                number.as_i64().map(i128::from).or(number.as_u64().map(i128::from))
            };
            let limit = |word: &str| words.get(word).and_then(Value::as_number).and_then(integer);
            let Some(number) = integer(number) else { return };
            if let Some(min) = limit("minimum").filter(|min| number < *min) {
                problems.report(format!("must be at least {min}"));
            }
            if let Some(max) = limit("maximum").filter(|max| number > *max) {
                problems.report(format!("must be at most {max}"));
            }
        }
        Value::String(text) => {
            let count = text.chars().count() as u64;
            check_size(count, limit("minLength"), limit("maxLength"), "characters", problems);
        }
        Value::Array(elements) => {
            check_size(elements.len() as u64, limit("minItems"), limit("maxItems"), "elements", problems);
        }
        _ => {}
    }
}

fn check_size(size: u64, min: Option<u64>, max: Option<u64>, of: &str, problems: &mut Problems) {
    match (min, max) {
        (Some(_), _) if size == 0 => problems.report("must not be empty"),
        (Some(min), _) if size < min => problems.report(format!("must have at least {min} {of}")),
        (_, Some(max)) if size > max => problems.report(format!("must have at most {max} {of}")),
        _ => {}
    }
}

fn has_type(expected: &Value, value: &Value) -> bool {
    match expected {
        Value::Array(alternatives) => alternatives.iter().any(|expected| has_type(expected, value)),
        Value::String(expected) => match expected.as_str() {
            "integer" => value.is_i64() || value.is_u64(),
            expected => type_name(value) == expected || (expected == "number" && value.is_number()),
        },
        _ => true,
    }
}

fn type_names(expected: &Value) -> String {
    match expected {
        Value::Array(alternatives) => alternatives.iter().map(type_names).collect::<Vec<_>>().join(" or "),
        Value::String(name) if name == "integer" || name == "array" || name == "object" => {
            format!("an {name}")
        }
        other => format!("a {}", plain(other)),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if value.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(schema: Value, value: Value) -> Vec<String> {
        let mut problems = Problems::new();
        check(&schema, &value, &mut problems);
        problems.into_found().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_problem_is_found_at_once() {
        let schema = json!({
            "type": "object",
            "required": ["name", "size"],
            "properties": {
                "name": {"type": "string", "format": "dns-label"},
                "size": {"type": "integer", "minimum": 1, "maximum": 9},
                "colour": {"type": "string", "enum": ["red", "green"]},
                "cpu": {"type": ["integer", "string"], "format": "quantity-milli"},
                "list": {"type": "array", "minItems": 1, "maxItems": 1, "items": {"type": "boolean"}},
                "text": {"type": "string", "minLength": 1, "maxLength": 2},
                "map": {"type": "object", "propertyNames": {"format": "label-key"}, "additionalProperties": {"type": "string"}},
            },
        });
        let bad = json!({
            "name": "Web", "colour": "blue", "cpu": "x", "list": [], "text": "äöü",
            "map": {"a/b/c": 1, "ok": "ok"}, "unknown": null,
        });
        assert_eq!(
            found(schema.clone(), bad),
            [
                ".size is required",
                ".colour must be one of red, green, is blue",
                ".cpu must be a number such as \"500m\" or \"2\"",
                ".list must not be empty",
                ".map.\"a/b/c\" as a key must consist of letters, digits, '-', '_' and '.', and begin and end with a letter or digit",
                ".map.\"a/b/c\" must be a string, is integer",
                ".name must consist of lower-case letters, digits and '-', and begin and end with a letter or digit",
                ".text must have at most 2 characters",
            ]
        );
        let other = json!({"name": "a", "size": 10, "cpu": 1.5, "list": [true, 1], "text": ""});
        assert_eq!(
            found(schema.clone(), other),
            [
                ".cpu must be an integer or a string, is number",
                ".list must have at most 1 elements",
                ".list[1] must be a boolean, is integer",
                ".size must be at most 9",
                ".text must not be empty",
            ]
        );
        assert_eq!(found(schema, json!({"name": "a", "size": 1, "cpu": 2})), [""; 0]);
    }

    #[test]
    fn elements_of_sets_and_maps_are_there_once() {
        let set = json!({"x-setpoint-list-type": "set"});
        assert_eq!(found(set, json!(["a", "b", "a"])), ["[2] is the same as [0]"]);
        let map = json!({"x-setpoint-list-type": "map", "x-setpoint-list-map-keys": ["key", "effect"]});
        let taints = json!([{"key": "a", "effect": "x"}, {"key": "a", "effect": "y"}, {"key": "a", "effect": "y", "v": 1}]);
        assert_eq!(found(map, taints), ["[2] is the same as [1] by key and effect"]);
        assert_eq!(found(json!({}), json!(["a", "a"])), [""; 0]);
    }

    #[test]
    fn the_whole_range_of_integers_is_compared() {
        let schema = json!({"type": "integer", "minimum": 0});
        assert_eq!(found(schema.clone(), json!(u64::MAX)), [""; 0]);
        assert_eq!(found(schema.clone(), json!(-1)), [" must be at least 0"]);
        assert_eq!(found(schema, json!(1.0)), [" must be an integer, is number"]);
    }
}
