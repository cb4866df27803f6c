//! Whether a value has the shape its schema says; every problem at once.
//!
//! Not here, but in the crate `objects`: fields the schema does not name, elements of a set or a map that are there twice,
//! and fields that never change.

use serde_json::{Map, Value};

use super::format::Format;
use crate::Problems;

/// A schema, read once: every write of an object is checked, and looking its words up each time was most of that.
#[derive(Debug, Default)]
pub struct Check {
    expected: Option<Types>,
    allowed: Option<Vec<Value>>,
    format: Option<Format>,
    minimum: Option<i128>,
    maximum: Option<i128>,
    length: Size,
    items_count: Size,
    required: Vec<String>,
    /// In the order of their names.
    properties: Vec<(String, Self)>,
    key_format: Option<Format>,
    /// Of fields that are not named.
    others: Option<Box<Self>>,
    items: Option<Box<Self>>,
}

#[derive(Debug, Default)]
struct Size {
    min: Option<u64>,
    max: Option<u64>,
}

impl Check {
    /// A schema that is `true` or `false` says nothing.
    pub fn of(schema: &Value) -> Self {
        let Some(words) = schema.as_object() else { return Self::default() };
        let format = |words: &Value| words.get("format").and_then(Value::as_str).and_then(Format::of);
        let texts = |word: &str| -> Vec<String> {
            let list = words.get(word).and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let below = |word: &str| words.get(word).map(|schema| Box::new(Self::of(schema)));
        let named = words.get("properties").and_then(Value::as_object).into_iter().flatten();
        let mut properties: Vec<_> = named.map(|(name, schema)| (name.clone(), Self::of(schema))).collect();
        properties.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Self {
            expected: words.get("type").map(Types::of),
            allowed: words.get("enum").and_then(Value::as_array).cloned(),
            format: format(schema),
            minimum: words.get("minimum").and_then(Value::as_number).and_then(integer),
            maximum: words.get("maximum").and_then(Value::as_number).and_then(integer),
            length: Size::of(words, "minLength", "maxLength"),
            items_count: Size::of(words, "minItems", "maxItems"),
            required: texts("required"),
            key_format: words.get("propertyNames").and_then(format),
            others: below("additionalProperties"),
            items: below("items"),
            properties,
        }
    }

    /// Reports what is wrong with a value.
    pub fn run(&self, value: &Value, problems: &mut Problems) {
        if let Some(expected) = &self.expected
            && !expected.has(value)
        {
            problems.report(format!("must be {}, is {}", expected.names, type_name(value)));
            return;
        }
        if let Some(allowed) = &self.allowed
            && !allowed.contains(value)
        {
            let allowed: Vec<String> = allowed.iter().map(plain).collect();
            problems.report(format!("must be one of {}, is {}", allowed.join(", "), plain(value)));
            return;
        }
        if let Some(format) = &self.format
            && let Err(message) = format.check(value)
        {
            problems.report(message);
        }
        match value {
            Value::Number(number) => self.check_number(number, problems),
            Value::String(text) => self.length.check(|| text.chars().count(), "characters", problems),
            Value::Array(elements) => {
                self.items_count.check(|| elements.len(), "elements", problems);
                if let Some(items) = &self.items {
                    for (index, element) in elements.iter().enumerate() {
                        problems.index(index, |problems| items.run(element, problems));
                    }
                }
            }
            Value::Object(fields) => self.check_object(fields, problems),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn check_object(&self, fields: &Map<String, Value>, problems: &mut Problems) {
        for name in self.required.iter().filter(|name| !fields.contains_key(*name)) {
            problems.report_at(name, "is required");
        }
        for (name, field) in fields {
            let property = self.properties.binary_search_by(|(property, _)| property.cmp(name));
            problems.field(name, |problems| match property.ok().and_then(|at| self.properties.get(at)) {
                Some((_, property)) => property.run(field, problems),
                None => {
                    // The key of a map's entry is wrong where the entry is.
                    if let Some(format) = &self.key_format
                        && let Err(message) = format.check_text(name)
                    {
                        problems.report(format!("as a key {message}"));
                    }
                    if let Some(others) = &self.others {
                        others.run(field, problems);
                    }
                }
            });
        }
    }

    fn check_number(&self, number: &serde_json::Number, problems: &mut Problems) {
        if self.minimum.is_none() && self.maximum.is_none() {
            return;
        }
        let Some(number) = integer(number) else { return };
        if let Some(min) = self.minimum.filter(|min| number < *min) {
            problems.report(format!("must be at least {min}"));
        }
        if let Some(max) = self.maximum.filter(|max| number > *max) {
            problems.report(format!("must be at most {max}"));
        }
    }
}

impl Size {
    fn of(words: &Map<String, Value>, min: &str, max: &str) -> Self {
        let limit = |word: &str| words.get(word).and_then(Value::as_u64);
        Self { min: limit(min), max: limit(max) }
    }

    fn check(&self, size: impl FnOnce() -> usize, of: &str, problems: &mut Problems) {
        let Self { min, max } = *self;
        if min.is_none() && max.is_none() {
            return;
        }
        let size = size() as u64;
        match (min, max) {
            (Some(_), _) if size == 0 => problems.report("must not be empty"),
            (Some(min), _) if size < min => problems.report(format!("must have at least {min} {of}")),
            (_, Some(max)) if size > max => problems.report(format!("must have at most {max} {of}")),
            _ => {}
        }
    }
}

/// An integer of JSON is an i64 or a u64, and both fit.
fn integer(number: &serde_json::Number) -> Option<i128> {
    number.as_i64().map(i128::from).or(number.as_u64().map(i128::from))
}

/// The types that a value may have.
#[derive(Debug)]
struct Types {
    /// A bit each, see [`type_bit`].
    bits: u8,
    /// As people read them.
    names: String,
}

impl Types {
    fn of(word: &Value) -> Self {
        Self { bits: type_bits(word), names: type_names(word) }
    }

    fn has(&self, value: &Value) -> bool {
        self.bits & type_bit(value) != 0
    }
}

const INTEGER: u8 = 1 << 2;
const NUMBER: u8 = 1 << 3;

fn type_bit(value: &Value) -> u8 {
    match value {
        Value::Null => 1 << 0,
        Value::Bool(_) => 1 << 1,
        Value::Number(_) if value.is_f64() => NUMBER,
        Value::Number(_) => INTEGER,
        Value::String(_) => 1 << 4,
        Value::Array(_) => 1 << 5,
        Value::Object(_) => 1 << 6,
    }
}

/// What is no name of a type allows everything, and a name that is none nothing.
fn type_bits(word: &Value) -> u8 {
    match word {
        Value::Array(alternatives) => alternatives.iter().map(type_bits).fold(0, |all, it| all | it),
        Value::String(name) => match name.as_str() {
            "null" => 1 << 0,
            "boolean" => 1 << 1,
            "integer" => INTEGER,
            "number" => INTEGER | NUMBER,
            "string" => 1 << 4,
            "array" => 1 << 5,
            "object" => 1 << 6,
            _ => 0,
        },
        _ => u8::MAX,
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
        Check::of(&schema).run(&value, &mut problems);
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
    fn the_whole_range_of_integers_is_compared() {
        let schema = json!({"type": "integer", "minimum": 0});
        assert_eq!(found(schema.clone(), json!(u64::MAX)), [""; 0]);
        assert_eq!(found(schema.clone(), json!(-1)), [" must be at least 0"]);
        assert_eq!(found(schema, json!(1.0)), [" must be an integer, is number"]);
    }
}
