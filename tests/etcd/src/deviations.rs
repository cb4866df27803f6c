//! Where our server deliberately answers differently from etcd. Each entry names its reason.
//!
//! An entry must be as narrow as the deviation: it sees the step and one differing field, and whatever it does not
//! cover is still a difference.

use crate::compare::Difference;
use crate::step::Step;

pub struct Deviation {
    /// Why our server differs, in one sentence.
    pub reason: &'static str,
    pub covers: fn(&Step, &Difference) -> bool,
}

pub const DEVIATIONS: &[Deviation] = &[Deviation {
    reason: "an undefined sort order is refused, as newer versions of etcd do; 3.5 ignores it",
    covers: |step, difference| {
        let undefined = matches!(step, Step::Range(range) if !(0..=2).contains(&range.sort_order));
        let refused = match (difference.path.as_str(), &difference.subject) {
            ("refused", Some(code)) => code == "InvalidArgument",
            ("message", Some(message)) => message == "etcdserver: invalid sort option",
            // What etcd answered instead.
            (_, subject) => subject.is_none(),
        };
        undefined && refused
    },
}];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::compare::compare;
    use crate::step::{RangeStep, Step};

    #[test]
    fn only_the_refusal_of_an_undefined_sort_order_is_covered() {
        let range = |sort_order| Step::Range(RangeStep { sort_order, ..RangeStep::default() });
        let read = json!({ "header": 5, "count": 1 });
        let refusal = json!({ "refused": "InvalidArgument", "message": "etcdserver: invalid sort option" });
        assert_eq!(compare(&range(9), &read, &refusal), []);
        assert_ne!(compare(&range(1), &read, &refusal), [], "a defined order must not be refused");
        assert_ne!(
            compare(&range(9), &read, &json!({ "header": 6, "count": 1 })),
            [],
            "nor another answer be given"
        );
        assert_ne!(compare(&range(9), &read, &json!({ "refused": "Internal", "message": "" })), []);
    }
}
