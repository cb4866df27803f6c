//! How large a JSON value is, without writing it.

use serde_json::Value;

/// About as many bytes as it takes when it is written.
pub fn written_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| 1 + written_bytes(item)).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(name, field)| name.len() + 4 + written_bytes(field)).sum::<usize>()
        }
    }
}

/// How deep it nests: 1 for a text.
pub fn depth(value: &Value) -> usize {
    let below = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        _ => None,
    };
    1 + below.unwrap_or(0)
}
