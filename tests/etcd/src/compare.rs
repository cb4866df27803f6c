//! Where two normalised answers differ, field by field.

use std::fmt;

use serde_json::Value;

use crate::deviations::{DEVIATIONS, Seen};
use crate::resolve::Bearings;
use crate::step::Step;

/// One field in which the subject answered differently from the reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Where in the answer, like `responses[1].range.count`; empty for the answer as a whole.
    pub path: String,
    /// `None` if the field is missing (or at its default).
    pub reference: Option<Value>,
    pub subject: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |side: &Option<Value>| side.as_ref().map_or("(absent)".to_owned(), Value::to_string);
        let path = if self.path.is_empty() { "(answer)" } else { &self.path };
        write!(f, "{path}: reference {}, subject {}", show(&self.reference), show(&self.subject))
    }
}

/// Every difference between the answers to a step, without the known deliberate ones. `bearings` is where the store
/// stood before the step.
pub fn compare(step: &Step, bearings: &Bearings, reference: &Value, subject: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    descend(String::new(), Some(reference), Some(subject), &mut found);
    found.retain(|difference| {
        let seen = Seen { step, bearings, reference, difference };
        !DEVIATIONS.iter().any(|deviation| (deviation.covers)(&seen))
    });
    found
}

fn descend(path: String, reference: Option<&Value>, subject: Option<&Value>, found: &mut Vec<Difference>) {
    match (reference, subject) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let names = left.keys().chain(right.keys().filter(|name| !left.contains_key(*name)));
            for name in names {
                let dot = if path.is_empty() { "" } else { "." };
                descend(format!("{path}{dot}{name}"), left.get(name), right.get(name), found);
            }
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) => {
            for index in 0..left.len().max(right.len()) {
                descend(format!("{path}[{index}]"), left.get(index), right.get(index), found);
            }
        }
        (left, right) if left == right => {}
        (left, right) => {
            found.push(Difference { path, reference: left.cloned(), subject: right.cloned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::compare;
    use crate::resolve::Bearings;
    use crate::step::Step;

    const AT: Bearings = Bearings { revision: 9, compacted: 0 };

    #[test]
    fn differences_are_named_by_path() {
        let reference = json!({ "header": 5, "kvs": [{ "key": "a", "mod": 2 }, { "key": "b" }], "count": 2 });
        let subject = json!({ "header": 5, "kvs": [{ "key": "a", "mod": 3 }], "count": 2, "more": true });
        let found = compare(&Step::Leases, &AT, &reference, &subject);
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "kvs[0].mod: reference 2, subject 3",
                "kvs[1]: reference {\"key\":\"b\"}, subject (absent)",
                "more: reference (absent), subject true",
            ]
        );
        assert_eq!(compare(&Step::Leases, &AT, &reference, &reference), []);
    }
}
