//! How paths are written: `.spec.ports[port=80,protocol="TCP"].name`, `.spec.zones["a"]`, `.metadata.labels."example.com/tier"`.
//!
//! A name of letters, digits, `_` and `-` stands as it is, any other as a JSON string; keys and members are JSON. Each set has
//! exactly one notation: its paths in the order of their bytes.

use std::fmt;

use serde_json::Value;

use super::{FieldSet, Scalar, Step};
use crate::DEPTH_MAX;

/// Steps of one path. A document is at most half as deep, so that whatever is written can be read.
const STEPS_MAX: usize = 2 * DEPTH_MAX;

/// A path that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPath {
    pub path: String,
    /// Where, in bytes.
    pub at: usize,
    pub expected: &'static str,
}

impl fmt::Display for BadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no field path: expected {} at byte {}", self.path, self.expected, self.at)
    }
}

impl std::error::Error for BadPath {}

impl Step {
    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Self::Field(name) => push_field(out, name),
            Self::Member(scalar) => {
                out.push('[');
                push_scalar(out, scalar);
                out.push(']');
            }
            Self::Item(keys) => {
                out.push('[');
                for (index, (key, scalar)) in keys.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    push_name(out, key);
                    out.push('=');
                    push_scalar(out, scalar);
                }
                out.push(']');
            }
        }
    }

    /// A path as it is written.
    pub fn print(path: &[Self]) -> String {
        let mut out = String::new();
        for step in path {
            step.write(&mut out);
        }
        out
    }

    /// A path from its notation.
    pub fn parse(path: &str) -> Result<Vec<Self>, BadPath> {
        let mut cursor = Cursor { text: path, at: 0 };
        let mut steps = Vec::new();
        while cursor.at < path.len() {
            if steps.len() == STEPS_MAX {
                return Err(cursor.wrong("an end: too many steps"));
            }
            steps.push(cursor.step()?);
        }
        if steps.is_empty() { Err(cursor.wrong("`.` and a field")) } else { Ok(steps) }
    }
}

/// Goes into a field: `.name`.
pub fn push_field(out: &mut String, name: &str) {
    out.push('.');
    push_name(out, name);
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn push_name(out: &mut String, name: &str) {
    if !name.is_empty() && name.bytes().all(is_plain) {
        out.push_str(name);
    } else {
        out.push_str(&Value::String(name.to_owned()).to_string());
    }
}

fn push_scalar(out: &mut String, scalar: &Scalar) {
    out.push_str(&scalar.to_value().to_string());
}

impl FieldSet {
    /// Every path, in the order of their bytes.
    pub fn print(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.print_below(&mut String::new(), &mut lines);
        lines.sort_unstable();
        lines
    }

    fn print_below(&self, at: &mut String, lines: &mut Vec<String>) {
        if self.member && !at.is_empty() {
            lines.push(at.clone());
        }
        for (step, set) in &self.below {
            let back = at.len();
            step.write(at);
            set.print_below(at, lines);
            at.truncate(back);
        }
    }

    /// A set from its notation. A line that is no path is passed over.
    pub(crate) fn of_lines<'l>(lines: impl IntoIterator<Item = &'l String>) -> Self {
        let mut set = Self::new();
        for path in lines.into_iter().filter_map(|line| Step::parse(line).ok()) {
            set.insert(&path);
        }
        set
    }

    /// A set from its notation, in any order.
    pub fn parse<'l>(lines: impl IntoIterator<Item = &'l str>) -> Result<Self, BadPath> {
        let mut set = Self::new();
        for line in lines {
            set.insert(&Step::parse(line)?);
        }
        Ok(set)
    }
}

struct Cursor<'t> {
    text: &'t str,
    at: usize,
}

impl Cursor<'_> {
    fn wrong(&self, expected: &'static str) -> BadPath {
        BadPath { path: self.text.to_owned(), at: self.at, expected }
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn eat(&mut self, byte: char) -> bool {
        let there = self.rest().starts_with(byte);
        self.at += if there { byte.len_utf8() } else { 0 };
        there
    }

    fn step(&mut self) -> Result<Step, BadPath> {
        if self.eat('.') {
            return Ok(Step::Field(self.name()?));
        }
        if !self.eat('[') {
            return Err(self.wrong("`.` or `[`"));
        }
        let step = if self.has_key() { self.item()? } else { Step::Member(self.scalar()?) };
        if self.eat(']') { Ok(step) } else { Err(self.wrong("`]`")) }
    }

    /// Whether a name and `=` follow, rather than a value.
    fn has_key(&self) -> bool {
        let mut ahead = Cursor { text: self.text, at: self.at };
        ahead.name().is_ok() && ahead.eat('=')
    }

    fn item(&mut self) -> Result<Step, BadPath> {
        let mut keys: Vec<(String, Scalar)> = Vec::new();
        loop {
            let key = self.name()?;
            if !self.eat('=') {
                return Err(self.wrong("`=` and a value"));
            }
            let scalar = self.scalar()?;
            if keys.iter().any(|(other, _)| *other == key) {
                return Err(self.wrong("another key"));
            }
            keys.push((key, scalar));
            if !self.eat(',') {
                return Ok(Step::item(keys));
            }
        }
    }

    fn name(&mut self) -> Result<String, BadPath> {
        if self.rest().starts_with('"') {
            return match self.json()? {
                Value::String(name) => Ok(name),
                _ => Err(self.wrong("a name")),
            };
        }
        let length = self.rest().bytes().take_while(|byte| is_plain(*byte)).count();
        if length == 0 {
            return Err(self.wrong("a name"));
        }
        let name = self.rest()[..length].to_owned();
        self.at += length;
        Ok(name)
    }

    fn scalar(&mut self) -> Result<Scalar, BadPath> {
        let start = self.at;
        let value = self.json()?;
        Scalar::of(&value).ok_or(BadPath {
            path: self.text.to_owned(),
            at: start,
            expected: "a string, a number, true or false",
        })
    }

    fn json(&mut self) -> Result<Value, BadPath> {
        let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter::<Value>();
        let value = match values.next() {
            Some(Ok(value)) => value,
            _ => return Err(self.wrong("a JSON value")),
        };
        let length = values.byte_offset();
        self.at += length;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_and_written_alike() {
        for path in [
            ".spec.replicas",
            ".spec.ports[port=80].name",
            ".spec.ports[port=80,protocol=\"TCP\"].name",
            ".spec.zones[\"a\"]",
            ".spec.zones[-1]",
            ".spec.zones[1.5][true]",
            ".metadata.labels.\"example.com/tier\"",
            ".metadata.labels.\"\"",
            ".spec.ports[\"a b\"=\"]=,\"].\"x\\\"y\"",
            ".spec.numbers[18446744073709551615]",
        ] {
            let steps = Step::parse(path).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(Step::print(&steps), path);
        }
    }

    #[test]
    fn what_is_no_path_is_refused_with_its_place() {
        for (path, at) in [
            ("", 0),
            (".", 1),
            ("spec", 0),
            (".spec.", 6),
            (".spec[", 6),
            (".spec[]", 6),
            (".spec[null]", 6),
            (".spec[{}]", 6),
            (".spec[a=1", 9),
            (".spec[a=1,a=2]", 13),
            (".spec[a=1,b]", 11),
            (".spec.\"x", 6),
            (".spec é", 5),
        ] {
            let error = Step::parse(path).expect_err(path);
            assert_eq!(error.at, at, "{error}");
        }
        assert!(Step::parse(&".a".repeat(STEPS_MAX)).is_ok());
        assert!(Step::parse(&".a".repeat(STEPS_MAX + 1)).is_err());
    }
}
