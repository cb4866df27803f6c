//! Where our server deliberately answers differently from etcd. Each entry names its reason.
//!
//! An entry must be as narrow as the deviation: it sees the step and one differing field, and whatever it does not
//! cover is still a difference.

use serde_json::Value;

use crate::compare::Difference;
use crate::resolve::Bearings;
use crate::step::Step;

/// One differing field and what surrounds it.
pub struct Seen<'a> {
    pub step: &'a Step,
    /// Where the store stood before the step.
    pub bearings: &'a Bearings,
    /// The reference's whole answer.
    pub reference: &'a Value,
    pub difference: &'a Difference,
}

pub struct Deviation {
    /// Why our server differs, in one sentence.
    pub reason: &'static str,
    pub covers: fn(&Seen<'_>) -> bool,
}

pub const DEVIATIONS: &[Deviation] = &[
    Deviation {
        reason: "an undefined sort order is refused, as newer versions of etcd do; 3.5 ignores it",
        covers: |Seen { step, difference, .. }| {
            let undefined = matches!(step, Step::Range(range) if !(0..=2).contains(&range.sort_order));
            let refused = match (difference.path.as_str(), &difference.subject) {
                ("refused", Some(code)) => code == "InvalidArgument",
                ("message", Some(message)) => message == "etcdserver: invalid sort option",
                // What etcd answered instead.
                (_, subject) => subject.is_none(),
            };
            undefined && refused
        },
    },
    Deviation {
        reason: "an event at the compacted revision carries the value it replaced, which etcd has lost; kube-apiserver \
                 ends a watch whose events lack it",
        covers: |Seen { step, bearings, reference, difference }| {
            let event = difference.path.strip_suffix(".previous").and_then(|path| at(reference, path));
            let revision = event.and_then(event_revision);
            **step == Step::Settle
                && difference.reference.is_none()
                && difference.subject.is_some()
                && revision == Some(bearings.compacted)
        },
    },
    Deviation {
        reason: "the hash of a compacted revision is refused; etcd answers with that of a later compaction, if it is done",
        covers: |Seen { step, bearings, reference, difference }| {
            let Step::HashKv { revision } = step else { return false };
            let compacted = (1..bearings.compacted).contains(&bearings.resolve(*revision));
            let refused = match (difference.path.as_str(), &difference.subject) {
                ("refused", Some(code)) => code == "OutOfRange",
                ("message", Some(message)) => {
                    message == "etcdserver: mvcc: required revision has been compacted"
                }
                (_, subject) => subject.is_none(),
            };
            compacted && refused && reference.get("hash_set").is_some()
        },
    },
];

/// The place in an answer that a difference names.
fn at<'a>(answer: &'a Value, path: &str) -> Option<&'a Value> {
    answer.pointer(&format!("/{}", path.replace(['.', '['], "/").replace(']', "")))
}

fn event_revision(event: &Value) -> Option<i64> {
    ["put", "delete"].iter().find_map(|kind| event.get(kind)?.get("mod")?.as_i64())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::compare::compare;
    use crate::resolve::Bearings;
    use crate::step::{RangeStep, Rev, Step};

    const AT: Bearings = Bearings { revision: 9, compacted: 5 };

    #[test]
    fn only_the_refusal_to_hash_a_compacted_revision_is_covered() {
        let hash = |revision| Step::HashKv { revision: Rev::Exactly(revision) };
        let hashed = json!({ "header": 9, "hash_set": true, "same_twice": true });
        let message = "etcdserver: mvcc: required revision has been compacted";
        let refusal = json!({ "refused": "OutOfRange", "message": message });
        assert_eq!(compare(&hash(4), &AT, &hashed, &refusal), []);
        assert_ne!(
            compare(&hash(5), &AT, &hashed, &refusal),
            [],
            "the compacted revision itself can be read"
        );
        assert_ne!(compare(&hash(0), &AT, &hashed, &refusal), []);
        assert_ne!(compare(&hash(4), &AT, &refusal, &hashed), [], "nor is a hash where etcd refuses");
    }

    #[test]
    fn only_the_value_before_an_event_at_the_compacted_revision_is_covered() {
        let answer = |revision: i64, previous: bool| {
            let mut event = json!({ "delete": { "key": "a", "mod": revision } });
            if previous {
                event["previous"] = json!({ "key": "a", "mod": 3 });
            }
            json!({ "0": { "watches": { "0": { "events": [event] } } } })
        };
        let found = |revision, reference, subject| {
            compare(&Step::Settle, &AT, &answer(revision, reference), &answer(revision, subject)).len()
        };
        assert_eq!(found(5, false, true), 0);
        assert_eq!(found(6, false, true), 1, "above it etcd has the value, or there is none");
        assert_eq!(found(5, true, false), 1, "what etcd has, we must have");
    }

    #[test]
    fn only_the_refusal_of_an_undefined_sort_order_is_covered() {
        let range = |sort_order| Step::Range(RangeStep { sort_order, ..RangeStep::default() });
        let read = json!({ "header": 5, "count": 1 });
        let refusal = json!({ "refused": "InvalidArgument", "message": "etcdserver: invalid sort option" });
        assert_eq!(compare(&range(9), &AT, &read, &refusal), []);
        assert_ne!(compare(&range(1), &AT, &read, &refusal), [], "a defined order must not be refused");
        assert_ne!(
            compare(&range(9), &AT, &read, &json!({ "header": 6, "count": 1 })),
            [],
            "nor another answer be given"
        );
        assert_ne!(compare(&range(9), &AT, &read, &json!({ "refused": "Internal", "message": "" })), []);
    }
}
