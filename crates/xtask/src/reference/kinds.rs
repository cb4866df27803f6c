//! The page about kinds: a table of fields each, from its JSON Schema.
//!
//! Fields of nested objects follow their parent, with the whole path: a field is found by searching for what is in a manifest. Not here: what
//! schemas may say (`crates/types/src/schema`).

use std::fmt::Write as _;

use serde_json::Value;

const HEAD: &str = "\
# Kinds and their fields

Made by `cargo xtask reference` from the schemas that the server checks objects by; `setpoint explain` tells the same about a running cluster, and about kinds of
your own. In a field's path `[]` is each item of a list and `{}` each value of a map. **Required** fields have no default; a field that is *fixed* cannot be changed once it
is set. Times are milliseconds since 1970 and end in `Ms`.
";

/// The page about all kinds, given their names and schemas; `metadata` is what every object has.
pub fn page(schemas: &[(String, Value)]) -> String {
    let mut page = String::from(HEAD);
    let (metadata, kinds): (Vec<_>, Vec<_>) = schemas.iter().partition(|(name, _)| name == "metadata");
    let links: Vec<_> = kinds.iter().map(|(name, _)| format!("[{name}](#{})", name.to_lowercase())).collect();
    let _ = writeln!(page, "\n{}\n\n## Every object", links.join(" · "));
    for (_, schema) in metadata {
        section(&mut page, ".metadata", schema);
    }
    for (name, schema) in kinds {
        let _ = writeln!(page, "\n## {name}");
        for part in ["spec", "status"] {
            if let Some(schema) = schema.pointer(&format!("/properties/{part}")) {
                section(&mut page, &format!(".{part}"), schema);
            }
        }
    }
    page
}

/// A part of an object: what it is for, then its fields.
fn section(page: &mut String, path: &str, schema: &Value) {
    let _ = writeln!(page, "\n`{path}`: {}", text(schema, "description"));
    let mut rows = Vec::new();
    fields(&mut rows, path, schema);
    if !rows.is_empty() {
        let _ = writeln!(page, "\n| field | type | what |\n|---|---|---|\n{}", rows.join("\n"));
    }
}

/// Rows of everything below a schema, parents before their parts.
fn fields(rows: &mut Vec<String>, path: &str, schema: &Value) {
    let required =
        |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|it| it == name));
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        rows.push(row(&path, field, required(name)));
        below(rows, &path, field);
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        below_value(rows, &format!("{path}.{{}}"), values);
    }
}

fn below(rows: &mut Vec<String>, path: &str, field: &Value) {
    if let Some(items) = field.get("items") {
        below_value(rows, &format!("{path}[]"), items);
    }
    fields(rows, path, field);
}

/// What a list or a map holds has a row of its own only if it says something about itself that its parts do not.
fn below_value(rows: &mut Vec<String>, path: &str, value: &Value) {
    if value.get("properties").is_none() && value.get("description").is_some() {
        rows.push(row(path, value, false));
    }
    below(rows, path, value);
}

fn row(path: &str, field: &Value, required: bool) -> String {
    let mut what = cell(text(field, "description"));
    let mut marks = Vec::new();
    if required {
        marks.push("**Required**".to_owned());
    }
    if field["x-setpoint-immutable"] == true {
        marks.push("*fixed*".to_owned());
    }
    if let Some(default) = field.get("default").filter(|default| !default.is_object()) {
        marks.push(format!("default `{default}`"));
    }
    if let Some(keys) = field["x-setpoint-list-map-keys"].as_array() {
        let keys: Vec<_> = keys.iter().filter_map(Value::as_str).collect();
        marks.push(format!("items are told apart by `{}`", keys.join("`, `")));
    }
    if !marks.is_empty() {
        let _ = write!(what, "{}({})", if what.is_empty() { "" } else { " " }, marks.join("; "));
    }
    format!("| `{path}` | {} | {what} |", kind_of(field))
}

/// `integer 1..65535`, `list of string`, `string (quantity-byte)`, ``one of `A`, `B` ``.
fn kind_of(field: &Value) -> String {
    if let Some(values) = field["enum"].as_array() {
        let values: Vec<_> = values
            .iter()
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .collect();
        return format!("one of `{}`", values.join("`, `"));
    }
    let mut kind = match &field["type"] {
        Value::String(one) => one.clone(),
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => "any".to_owned(),
    };
    if kind == "array" {
        kind = match field["x-setpoint-list-type"].as_str() {
            Some("set") => format!("set of {}", kind_of(&field["items"])),
            _ => format!("list of {}", kind_of(&field["items"])),
        };
    } else if kind == "object"
        && field.get("properties").is_none()
        && field["additionalProperties"].is_object()
    {
        kind = format!("map of {}", kind_of(&field["additionalProperties"]));
    }
    if let Some(format) = field["format"].as_str() {
        let _ = write!(kind, " ({format})");
    }
    // Bounds that only tell the width of a number are of no use to anybody.
    let least = field["minimum"].as_i64().filter(|least| *least != 0);
    let most =
        field["maximum"].as_u64().filter(|most| *most != u64::from(u32::MAX) && *most != i64::MAX as u64);
    match (least, most) {
        (Some(least), Some(most)) => drop(write!(kind, " {least}..{most}")),
        (Some(least), None) => drop(write!(kind, " from {least}")),
        (None, Some(most)) => drop(write!(kind, " up to {most}")),
        (None, None) => {}
    }
    kind
}

fn text<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema[key].as_str().unwrap_or_default()
}

/// Text as it can stand in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace("\n- ", "<br>• ").replace('\n', "<br>")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_tells_what_the_schema_does() {
        let schema = json!({"properties": {"spec": {"description": "What to run.", "required": ["ports"], "properties": {
            "ports": {"type": "array", "description": "Where it listens.", "x-setpoint-list-map-keys": ["name"], "items": {"type": "object", "properties": {
                "port": {"type": "integer", "minimum": 1, "maximum": 65535, "x-setpoint-immutable": true},
            }}},
            "mode": {"type": "string", "enum": ["A", "B"], "default": "A", "description": "One.\n- A: a | b"},
        }}}});
        let page = page(&[("Thing".to_owned(), schema)]);
        for row in [
            "| `.spec.mode` | one of `A`, `B` | One.<br>• A: a \\| b (default `\"A\"`) |",
            "| `.spec.ports` | list of object | Where it listens. (**Required**; items are told apart by `name`) |",
            "| `.spec.ports[].port` | integer 1..65535 | (*fixed*) |",
        ] {
            assert!(page.contains(row), "{row}\n{page}");
        }
    }
}
