//! Names and values, one below the other, values in one column.

use std::collections::BTreeMap;

use serde_json::Value;
use setpoint_types::Timestamp;

use crate::output::age::age;
use crate::output::column::plain;
use crate::output::table::{Table, printable};

/// A text that grows by lines.
#[derive(Default)]
pub struct Sheet {
    text: String,
}

/// Where values begin.
const INDENT: usize = 14;

impl Sheet {
    pub fn line(&mut self, name: &str, value: &str) {
        self.put(0, name, value);
    }

    fn put(&mut self, depth: usize, name: &str, value: &str) {
        let head = format!("{}{}:", "  ".repeat(depth), printable(name));
        let value = printable(value);
        // Values stand below each other where names are short and known.
        let width = if depth == 0 { INDENT - 1 } else { 0 };
        self.text.push_str(format!("{head:<width$} {value}").trim_end());
        self.text.push('\n');
    }

    pub fn pairs(&mut self, name: &str, pairs: &BTreeMap<String, String>) {
        if pairs.is_empty() {
            return self.line(name, "<none>");
        }
        for (index, (key, value)) in pairs.iter().enumerate() {
            let name = if index == 0 { format!("{name}:") } else { String::new() };
            let (key, value) = (printable(key), printable(value));
            let width = INDENT - 1;
            self.text.push_str(&format!("{name:<width$} {key}={value}\n"));
        }
    }

    /// JSON, field by field. Times are shown as ages.
    pub fn value(&mut self, name: &str, value: &Value, now: Timestamp) {
        match value {
            Value::Null => self.line(name, "<none>"),
            value => self.nested(0, name, value, now),
        }
    }

    fn nested(&mut self, depth: usize, name: &str, value: &Value, now: Timestamp) {
        match value {
            Value::Object(fields) if fields.is_empty() => self.put(depth, name, "{}"),
            Value::Object(fields) => {
                self.put(depth, name, "");
                for (name, value) in fields {
                    self.nested(depth + 1, name, value, now);
                }
            }
            Value::Array(elements) if elements.iter().all(is_leaf) => {
                self.put(depth, name, &elements.iter().map(plain).collect::<Vec<_>>().join(" "));
            }
            Value::Array(elements) => {
                self.put(depth, name, "");
                for (index, element) in elements.iter().enumerate() {
                    let (title, rest) = titled(element, index);
                    self.nested(depth + 1, &title, &rest, now);
                }
            }
            Value::Number(number) => match number.as_u64().filter(|_| name.ends_with("Ms")) {
                Some(time) if time > 1_000_000_000_000 => {
                    self.put(depth, name, &format!("{} ago", age(Timestamp(time), now)));
                }
                _ => self.put(depth, name, &number.to_string()),
            },
            leaf => self.put(depth, name, &plain(leaf)),
        }
    }

    pub fn table(&mut self, name: &str, table: &Table) {
        if table.is_empty() {
            return self.line(name, "<none>");
        }
        self.text.push_str(&format!("{name}:\n"));
        for line in table.plain().lines() {
            self.text.push_str(&format!("  {line}\n"));
        }
    }

    pub fn render(self) -> String {
        self.text
    }
}

fn is_leaf(value: &Value) -> bool {
    !matches!(value, Value::Array(_) | Value::Object(_))
}

/// What an element of a list is called, by its own name or by its number; and the rest of it.
fn titled(element: &Value, index: usize) -> (String, Value) {
    let mut rest = element.clone();
    let named = ["name", "key", "reason", "type"]
        .iter()
        .find_map(|field| Some((*field, element.get(field).and_then(Value::as_str)?.to_owned())));
    match named {
        Some((field, name)) => {
            rest.as_object_mut().map(|fields| fields.remove(field));
            (name, rest)
        }
        None => (format!("[{index}]"), rest),
    }
}
