//! The value of a printer column: `.spec.replicas`, `.status.conditions[type="Ready"].status`, `.spec.zones[0]`.

use serde_json::Value;
use setpoint_types::Timestamp;

use super::age;
use crate::kinds::ColumnEntry;

/// A cell, as people read it. What is not there is `<none>`.
pub fn cell(column: &ColumnEntry, object: &Value, now: Timestamp) -> String {
    let Some(value) = find(object, &column.path) else { return "<none>".to_owned() };
    match value {
        Value::Number(number) if column.is_time => {
            number.as_u64().map_or_else(|| number.to_string(), |then| age::age(Timestamp(then), now))
        }
        Value::String(text) if text.is_empty() => "<none>".to_owned(),
        Value::Null => "<none>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(elements) => elements.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// A text without quotes, anything else as JSON.
pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What is at a path. A path that cannot be read leads nowhere.
pub fn find<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    let (mut here, mut rest) = (object, path);
    while !rest.is_empty() {
        let step;
        (step, rest) = next(rest)?;
        here = match step {
            Step::Field(name) => here.get(name)?,
            Step::Index(index) => here.get(index)?,
            Step::With(field, wanted) => {
                here.as_array()?.iter().find(|it| it.get(&field).is_some_and(|it| plain(it) == wanted))?
            }
        };
    }
    Some(here)
}

enum Step {
    Field(String),
    Index(usize),
    /// The element of a list whose field has this value.
    With(String, String),
}

fn next(path: &str) -> Option<(Step, &str)> {
    if let Some(rest) = path.strip_prefix('[') {
        let (inside, rest) = until_bracket(rest)?;
        let step = match inside.split_once('=') {
            Some((field, wanted)) => Step::With(field.to_owned(), unquoted(wanted)),
            None => Step::Index(inside.parse().ok()?),
        };
        return Some((step, rest));
    }
    let rest = path.strip_prefix('.')?;
    if let Some(quoted) = rest.strip_prefix('"') {
        let (name, rest) = quoted.split_once('"')?;
        return Some((Step::Field(name.to_owned()), rest));
    }
    let end = rest.find(['.', '[']).unwrap_or(rest.len());
    Some((Step::Field(rest[..end].to_owned()), &rest[end..]))
}

/// Up to the bracket that is not inside quotes.
fn until_bracket(text: &str) -> Option<(&str, &str)> {
    let mut quoted = false;
    let end = text.find(|letter| {
        quoted ^= letter == '"';
        letter == ']' && !quoted
    })?;
    Some((&text[..end], &text[end + 1..]))
}

fn unquoted(text: &str) -> String {
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(path: &str, is_time: bool) -> String {
        let object = json!({
            "metadata": {"createdMs": 1000, "labels": {"example.com/tier": "front"}},
            "spec": {"zones": ["a", "b"], "on": false, "empty": ""},
            "status": {"conditions": [{"type": "Live", "status": "False"}, {"type": "Re]ady", "status": "True"}]},
        });
        let column = ColumnEntry { name: "X".into(), path: path.into(), is_time, is_wide: false };
        cell(&column, &object, Timestamp(61_000))
    }

    #[test]
    fn every_kind_of_path_finds_its_value() {
        assert_eq!(shown(".metadata.createdMs", true), "60s");
        assert_eq!(shown(".metadata.labels.\"example.com/tier\"", false), "front");
        assert_eq!(shown(".status.conditions[type=\"Re]ady\"].status", false), "True");
        assert_eq!(shown(".status.conditions[type=Live].status", false), "False");
        assert_eq!(shown(".spec.zones", false), "a,b");
        assert_eq!(shown(".spec.zones[1]", false), "b");
        assert_eq!(shown(".spec.on", false), "false");
    }

    #[test]
    fn what_is_not_there_is_none() {
        for path in
            [".spec.nothing", ".spec.zones[7]", ".spec.empty", "spec", ".spec.zones[", ".spec.zones[x]"]
        {
            assert_eq!(shown(path, false), "<none>", "{path}");
        }
    }
}
