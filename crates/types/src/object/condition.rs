//! Conditions: what is true of an object now, as its controllers see it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Generation, Revision, Timestamp};

/// One statement about an object, and since when it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What the statement is: "Ready", "Progressing".
    #[serde(rename = "type")]
    #[schemars(extend("format" = "reason"))]
    pub kind: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// The generation of the object it was found for. Older than the object's own: it may no longer hold.
    #[serde(default)]
    pub observed_generation: Generation,
    /// When the status last changed, in milliseconds since 1970.
    #[serde(default, rename = "lastTransitionMs")]
    pub last_transition: Timestamp,
    /// Why, in one word for programs: "QuotaExceeded".
    #[schemars(extend("format" = "reason"))]
    pub reason: String,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What was seen that led to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
}

/// Whether a condition holds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Nobody can say.
    #[default]
    Unknown,
}

/// A signal a decision was based on, and how old it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// What was looked at: "lease", "heartbeat", "probe".
    pub signal: String,
    /// What was found.
    pub value: String,
    /// When it was so, in milliseconds since 1970.
    #[serde(default, rename = "timeMs")]
    pub time: Timestamp,
    /// The revision it was read at; 0 if it was not read from the store.
    #[serde(default)]
    pub revision: Revision,
}

/// The condition of this type, if there is one.
pub fn find_condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// Adds a condition or brings it up to date, and says whether anything changed.
///
/// `condition.last_transition` is the time now. It is taken only when the status is another one than before, so that it
/// says since when the status holds; a repeated observation changes nothing and need not be written.
pub fn set_condition(conditions: &mut Vec<Condition>, condition: Condition) -> bool {
    let Some(present) = conditions.iter_mut().find(|present| present.kind == condition.kind) else {
        conditions.push(condition);
        return true;
    };
    let last_transition = match present.status == condition.status {
        true => present.last_transition,
        false => condition.last_transition,
    };
    let next = Condition { last_transition, ..condition };
    let changed = *present != next;
    *present = next;
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(status: ConditionStatus, reason: &str, now: u64) -> Condition {
        Condition {
            kind: "Ready".into(),
            status,
            reason: reason.into(),
            last_transition: Timestamp(now),
            ..Condition::default()
        }
    }

    #[test]
    fn the_transition_moves_only_when_the_status_flips() {
        let mut conditions = Vec::new();
        let since = |conditions: &[Condition]| find_condition(conditions, "Ready").unwrap().last_transition.0;
        assert!(set_condition(&mut conditions, ready(ConditionStatus::False, "Starting", 1)));
        assert!(!set_condition(&mut conditions, ready(ConditionStatus::False, "Starting", 2)));
        assert_eq!(since(&conditions), 1);
        assert!(set_condition(&mut conditions, ready(ConditionStatus::False, "Crashed", 3)));
        assert_eq!(since(&conditions), 1);
        assert!(set_condition(&mut conditions, ready(ConditionStatus::True, "Serving", 4)));
        assert_eq!(since(&conditions), 4);
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn conditions_of_other_types_are_left_alone() {
        let mut conditions = vec![Condition { kind: "Progressing".into(), ..Condition::default() }];
        assert!(set_condition(&mut conditions, ready(ConditionStatus::True, "Serving", 1)));
        assert_eq!(conditions.len(), 2);
        assert!(find_condition(&conditions, "Gone").is_none());
    }
}
