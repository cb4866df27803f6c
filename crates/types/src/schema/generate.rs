//! From Rust types to schemas for users.
//!
//! The generator's output is made plain: no references, no alternatives, no null. Whoever reads a schema then meets one
//! object, list or leaf per field, with what it is for, its bounds and its default.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::object::{Metadata, prune};

/// The schema of a kind with this spec and status: `{"type":"object","properties":{"spec":…,"status":…}}`.
pub fn schema_of<Spec: JsonSchema, Status: JsonSchema>() -> Value {
    let mut status = plain::<Status>();
    forget_defaults(&mut status);
    json!({
        "type": "object",
        "properties": {"spec": plain::<Spec>(), "status": status},
    })
}

/// The schema of the metadata, the same for all kinds. Who merges or owns labels, finalizers and owners needs it.
pub fn metadata_schema() -> Value {
    plain::<Metadata>()
}

fn plain<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = T::json_schema(&mut settings.into_generator()).to_value();
    simplify(&mut schema);
    schema
}

fn simplify(schema: &mut Value) {
    let Value::Object(words) = schema else { return };
    drop_null(words);
    join_variants(words);
    bound_integers(words);
    tidy_default(words);
    if let Some(Value::String(text)) = words.get_mut("description") {
        *text = unwrapped(text);
    }
    for word in ["items", "additionalProperties", "propertyNames"] {
        if let Some(inner) = words.get_mut(word) {
            simplify(inner);
        }
    }
    if let Some(Value::Object(properties)) = words.get_mut("properties") {
        properties.values_mut().for_each(simplify);
    }
}

/// An optional field is left out, never null.
fn drop_null(words: &mut Map<String, Value>) {
    if let Some(Value::Array(alternatives)) = words.get_mut("anyOf") {
        alternatives.retain(|alternative| alternative["type"] != "null");
        if let [Value::Object(only)] = &mut alternatives[..] {
            let only = std::mem::take(only);
            words.remove("anyOf");
            for (word, value) in only {
                words.entry(word).or_insert(value);
            }
        }
    }
    if let Some(Value::Array(values)) = words.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(types)) = words.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &mut types[..] {
            let only = only.take();
            words.insert("type".into(), only);
        }
    }
}

/// Documented variants of an enum come as alternatives; they become one list of values, documented together.
fn join_variants(words: &mut Map<String, Value>) {
    let Some(Value::Array(variants)) = words.get("oneOf") else { return };
    let variants: Option<Vec<(Value, String)>> = variants
        .iter()
        .map(|variant| Some((variant.get("const")?.clone(), unwrapped(variant["description"].as_str()?))))
        .collect();
    let Some(variants) = variants else { return };
    let mut description = unwrapped(words.get("description").and_then(Value::as_str).unwrap_or_default());
    for (value, meaning) in &variants {
        description.push_str(&format!("\n- {}: {meaning}", value.as_str().unwrap_or_default()));
    }
    words.remove("oneOf");
    words.insert("type".into(), "string".into());
    words.insert("enum".into(), variants.into_iter().map(|(value, _)| value).collect());
    words.insert("description".into(), description.trim_start().into());
}

/// Widths of Rust's integers become bounds, which every reader of schemas understands.
fn bound_integers(words: &mut Map<String, Value>) {
    let (min, max) = match words.get("format").and_then(Value::as_str) {
        Some("uint8") => (None, Some(u64::from(u8::MAX))),
        Some("uint16") => (None, Some(u64::from(u16::MAX))),
        Some("uint32") => (None, Some(u64::from(u32::MAX))),
        Some("int32") => (Some(i64::from(i32::MIN)), Some(i32::MAX as u64)),
        Some("int64") => (None, Some(i64::MAX as u64)),
        Some("uint64") => (None, None),
        _ => return,
    };
    words.remove("format");
    if let Some(min) = min {
        words.entry("minimum").or_insert(min.into());
    }
    if let Some(max) = max {
        words.entry("maximum").or_insert(max.into());
    }
}

/// A default that says nothing is none.
fn tidy_default(words: &mut Map<String, Value>) {
    let Some(default) = words.get_mut("default") else { return };
    prune(default);
    let says_nothing = match default {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    if says_nothing {
        words.remove("default");
    }
}

/// Nobody fills in a status but those who report it: what they did not say is not known.
fn forget_defaults(schema: &mut Value) {
    let Value::Object(words) = schema else { return };
    words.remove("default");
    for word in ["items", "additionalProperties"] {
        if let Some(inner) = words.get_mut(word) {
            forget_defaults(inner);
        }
    }
    if let Some(Value::Object(properties)) = words.get_mut("properties") {
        properties.values_mut().for_each(forget_defaults);
    }
}

/// Comments are wrapped for the width of the source; paragraphs and lists stay.
fn unwrapped(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim) {
        match lines.last_mut() {
            Some(last) if !last.is_empty() && !line.is_empty() && !line.starts_with("- ") => {
                last.push(' ');
                last.push_str(line);
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    enum Colour {
        /// Like grass.
        #[default]
        Green,
        /// Like blood,
        /// or wine.
        Red,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    struct Inner {
        /// How many.
        how_many: Option<u8>,
        colour: Option<Colour>,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Outer {
        /// Wrapped over
        /// two lines.
        inner: Inner,
        #[serde(default)]
        colour: Colour,
        #[serde(default)]
        list: Vec<u64>,
        maybe: Option<Inner>,
    }

    #[test]
    fn schemas_have_no_references_alternatives_or_nulls() {
        let colours = "- Green: Like grass.\n- Red: Like blood, or wine.";
        let colour = json!({"type": "string", "enum": ["Green", "Red"], "description": colours});
        let mut with_default = colour.clone();
        with_default["default"] = "Green".into();
        let inner = json!({
            "type": "object",
            "properties": {
                "howMany": {"type": "integer", "minimum": 0, "maximum": 255, "description": "How many."},
                "colour": colour,
            },
        });
        let mut described = inner.clone();
        described["description"] = "Wrapped over two lines.".into();
        let expected = json!({
            "type": "object",
            "properties": {
                "inner": described,
                "colour": with_default,
                "list": {"type": "array", "items": {"type": "integer", "minimum": 0}},
                "maybe": inner,
            },
            "required": ["inner"],
        });
        assert_eq!(plain::<Outer>(), expected);
    }
}
