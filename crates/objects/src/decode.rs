//! JSON from bytes, with what an ordinary decoder passes over: fields that are there twice, and nesting without a bound.
//!
//! Of a repeated field the last value counts, as everywhere; the caller decides whether it is refused (`unknown`).

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Value};

use crate::DEPTH_MAX;
use crate::fields::push_field;
use crate::refusal::FieldProblem;

/// How many repeated fields are named.
const REPEATED_MAX: usize = 32;

/// A document, and which of its fields were there more than once.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    pub value: Value,
    pub repeated: Vec<FieldProblem>,
}

/// Decodes one JSON document. `path` is where it is in the object, for messages; nothing at all is `null`.
pub fn decode(bytes: &[u8], path: &str) -> Result<Decoded, FieldProblem> {
    if bytes.is_empty() {
        return Ok(Decoded { value: Value::Null, repeated: Vec::new() });
    }
    let mut repeated = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let seed = Seed { at: &At::Root(path), depth: 0, repeated: &mut repeated };
    let value = seed.deserialize(&mut deserializer);
    match value.and_then(|value| deserializer.end().map(|()| value)) {
        Ok(value) => Ok(Decoded { value, repeated }),
        Err(error) => {
            Err(FieldProblem::new(if path.is_empty() { "." } else { path }, format!("is no JSON: {error}")))
        }
    }
}

/// How deep a document is nested.
pub(crate) fn depth(value: &Value) -> usize {
    match value {
        Value::Array(array) => 1 + array.iter().map(depth).max().unwrap_or_default(),
        Value::Object(object) => 1 + object.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

/// About how many bytes of JSON, and how deep.
pub(crate) fn size(value: &Value) -> (usize, usize) {
    let join = |(bytes, depth): (usize, usize), (more, deep): (usize, usize)| (bytes + more, depth.max(deep));
    let (bytes, depth) = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => return (8, 0),
        Value::String(text) => return (text.len() + 3, 0),
        Value::Array(array) => array.iter().map(size).fold((2, 0), join),
        Value::Object(object) => {
            object.iter().map(|(name, value)| join((name.len() + 4, 0), size(value))).fold((2, 0), join)
        }
    };
    (bytes, depth + 1)
}

/// A number without a fraction is an integer, however it is written: JSON Schema says so, and everything that is stored is
/// written in one way.
fn number(value: f64) -> Value {
    const I64_END: f64 = 9_223_372_036_854_775_808.0;
    const U64_END: f64 = 18_446_744_073_709_551_616.0;
    match value {
        _ if value.fract() != 0.0 => value.into(),
        _ if (-I64_END..I64_END).contains(&value) => (value as i64).into(),
        _ if (0.0..U64_END).contains(&value) => (value as u64).into(),
        _ => value.into(),
    }
}

/// The same for all numbers of a value that came from elsewhere.
pub(crate) fn settle_numbers(value: &mut Value) {
    match value {
        Value::Number(written) if written.is_f64() => *value = written.as_f64().map_or(Value::Null, number),
        Value::Array(array) => array.iter_mut().for_each(settle_numbers),
        Value::Object(object) => object.values_mut().for_each(settle_numbers),
        _ => {}
    }
}

/// Where in the document the decoder is. Written down only where a field is repeated, which is next to never.
enum At<'a> {
    Root(&'a str),
    Field(&'a At<'a>, &'a str),
    Index(&'a At<'a>, usize),
}

impl At<'_> {
    fn print(&self) -> String {
        match self {
            Self::Root(path) => (*path).to_owned(),
            Self::Field(above, name) => {
                let mut path = above.print();
                push_field(&mut path, name);
                path
            }
            Self::Index(above, index) => format!("{}[{index}]", above.print()),
        }
    }
}

struct Seed<'a> {
    at: &'a At<'a>,
    depth: usize,
    repeated: &'a mut Vec<FieldProblem>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Seed<'_> {
    fn descend<E: Error>(&self) -> Result<usize, E> {
        if self.depth < DEPTH_MAX {
            return Ok(self.depth + 1);
        }
        Err(E::custom(format_args!("nested more than {DEPTH_MAX} deep")))
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(number(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let depth = self.descend()?;
        let mut array = Vec::new();
        loop {
            let at = At::Index(self.at, array.len());
            let seed = Seed { at: &at, depth, repeated: &mut *self.repeated };
            match access.next_element_seed(seed)? {
                Some(item) => array.push(item),
                None => return Ok(Value::Array(array)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let depth = self.descend()?;
        let mut object = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            let at = At::Field(self.at, &name);
            let value = access.next_value_seed(Seed { at: &at, depth, repeated: &mut *self.repeated })?;
            match object.entry(name) {
                Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                Entry::Occupied(mut entry) => {
                    if self.repeated.len() < REPEATED_MAX {
                        let path = At::Field(self.at, entry.key()).print();
                        let message = "is there more than once: remove all but one";
                        self.repeated.push(FieldProblem::new(path, message));
                    }
                    entry.insert(value);
                }
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_decodes_as_it_would_elsewhere() {
        for text in [
            "null",
            "-1",
            "18446744073709551615",
            "1.5",
            "1e-3",
            "1e300",
            "[1,\"a\\u00e9\",{\"b\":[]}]",
            " {} ",
        ] {
            let decoded = decode(text.as_bytes(), "").expect(text);
            assert_eq!(decoded.value, serde_json::from_str::<Value>(text).expect(text));
        }
        assert_eq!(decode(b"", ".spec").expect("nothing").value, Value::Null);
    }

    #[test]
    fn numbers_without_a_fraction_are_integers() {
        for (text, number) in [
            ("1.0", "1"),
            ("-2.0", "-2"),
            ("-0.0", "0"),
            ("1e3", "1000"),
            ("1e19", "10000000000000000000"),
            ("-1e19", "-1e+19"),
            ("18446744073709551616", "1.8446744073709552e+19"),
            ("1.5", "1.5"),
        ] {
            let decoded = decode(text.as_bytes(), "").expect(text).value;
            assert_eq!(decoded.to_string(), number, "{text}");
            let mut settled: Value = serde_json::from_str(text).expect(text);
            settle_numbers(&mut settled);
            assert_eq!(settled, decoded, "{text}");
        }
    }

    #[test]
    fn repeated_fields_are_named_and_the_last_counts() {
        let decoded = decode(br#"{"a":1,"b":[{"c":1,"c":2}],"a":3}"#, ".spec").expect("a document");
        assert_eq!(decoded.value, serde_json::json!({"a": 3, "b": [{"c": 2}]}));
        let paths: Vec<String> = decoded.repeated.into_iter().map(|problem| problem.path).collect();
        assert_eq!(paths, [".spec.b[0].c", ".spec.a"]);
    }

    #[test]
    fn what_is_no_json_or_too_deep_is_refused() {
        for text in ["{", "{} x", "nul", "[1,]", "\u{feff}{}", "\"\\ud800\""] {
            assert!(decode(text.as_bytes(), ".spec").is_err(), "{text}");
        }
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(decode(nested(DEPTH_MAX).as_bytes(), ".spec").is_ok());
        let problem = decode(nested(DEPTH_MAX + 1).as_bytes(), ".spec").expect_err("too deep");
        assert!(problem.message.contains("nested more than 64 deep"), "{problem}");
        assert!(decode(nested(100_000).as_bytes(), ".spec").is_err());
    }
}
