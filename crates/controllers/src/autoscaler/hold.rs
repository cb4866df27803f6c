//! Whether more replicas would help, as the reasons of pending ones say. Pure.
//!
//! | pending because of | then |
//! |---|---|
//! | quota, topology, a paused policy, no node that suits | more replicas would wait for the same: the number is not raised |
//! | one of these, found before something it depends on changed | nobody knows whether it still holds: the number is not raised |
//! | what the scheduler knew was too old, or it has not looked yet | the same |
//! | capacity | more may be asked for: nodes may come because of it |
//! | everything else: queued, starting, an image | it is on its way; metrics count those that serve |
//!
//! Fewer are always allowed.

use setpoint_types::kinds::{PendingCount, PendingReason};
use setpoint_types::{Generation, Revision};

/// What is known of the target's replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    pub generation: Generation,
    /// The generation the reasons are about; none if the target's kind does not tell.
    pub observed_generation: Option<Generation>,
    pub reasons: Vec<PendingCount>,
}

/// When that last changed which reasons depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// The quotas of the namespace.
    pub quotas: Revision,
    /// All placement policies.
    pub policies: Revision,
}

/// Whether the number may be raised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    Free,
    /// More would wait for the same.
    By(PendingCount),
    /// It is not known whether more would help.
    Stale {
        why: String,
        /// Up to where the reasons are known.
        revision: Revision,
    },
}

/// Decides.
pub fn hold(waiting: &Waiting, depends: &Dependencies) -> Hold {
    if let Some(observed) = waiting.observed_generation.filter(|it| *it < waiting.generation) {
        let why = format!(
            "what is known of its replicas is about generation {observed}, and it is at {}",
            waiting.generation
        );
        return Hold::Stale { why, revision: Revision::NONE };
    }
    let held = waiting.reasons.iter().filter(|it| it.count > 0 && says(it.reason).is_some());
    // The reason of most of them; of two the one that comes first.
    let Some(reason) = held.max_by_key(|it| (it.count, std::cmp::Reverse(it.reason))) else {
        return Hold::Free;
    };
    let changed = match says(reason.reason) {
        Some(Says::Blocked { depends_on_quotas: true }) => depends.quotas.max(depends.policies),
        Some(Says::Blocked { depends_on_quotas: false }) => depends.policies,
        Some(Says::Unknown) | None => {
            let why = format!("{} of its replicas wait, and nobody can say yet for what", reason.count);
            return Hold::Stale { why, revision: reason.revision };
        }
    };
    if reason.revision < changed {
        let why = format!(
            "{:?} was found at revision {}, and what it depends on changed at {changed}",
            reason.reason, reason.revision
        );
        return Hold::Stale { why, revision: reason.revision };
    }
    Hold::By(reason.clone())
}

enum Says {
    Blocked { depends_on_quotas: bool },
    Unknown,
}

/// What a reason says about more replicas; none: nothing against them.
fn says(reason: PendingReason) -> Option<Says> {
    match reason {
        PendingReason::Quota => Some(Says::Blocked { depends_on_quotas: true }),
        PendingReason::Topology | PendingReason::NoEligibleNode | PendingReason::PolicyPaused => {
            Some(Says::Blocked { depends_on_quotas: false })
        }
        PendingReason::StaleCache | PendingReason::NotEvaluated => Some(Says::Unknown),
        PendingReason::Queued
        | PendingReason::Backoff
        | PendingReason::Capacity
        | PendingReason::Preempting
        | PendingReason::AwaitingRelease
        | PendingReason::Conflict
        | PendingReason::Image
        | PendingReason::Starting
        | PendingReason::NotReady
        | PendingReason::Crashing
        | PendingReason::NodeUnreachable
        | PendingReason::DeadlineExceeded => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(reasons: &[(PendingReason, u32, u64)]) -> Waiting {
        let reason = |(reason, count, revision): &(PendingReason, u32, u64)| PendingCount {
            reason: *reason,
            count: *count,
            revision: Revision::new(*revision),
            ..PendingCount::default()
        };
        let reasons = reasons.iter().map(reason).collect();
        Waiting { generation: Generation(2), observed_generation: Some(Generation(2)), reasons }
    }

    fn check(reasons: &[(PendingReason, u32, u64)], expected: &str) {
        let depends = Dependencies { quotas: Revision::new(50), policies: Revision::new(40) };
        let found = match hold(&waiting(reasons), &depends) {
            Hold::Free => "free".to_owned(),
            Hold::By(reason) => format!("{:?}", reason.reason),
            Hold::Stale { .. } => "stale".to_owned(),
        };
        assert_eq!(found, expected, "{reasons:?}");
    }

    #[test]
    fn what_more_replicas_would_wait_for_too_holds() {
        use PendingReason::*;
        check(&[], "free");
        check(&[(Capacity, 3, 60), (Starting, 1, 60), (Image, 1, 1)], "free");
        check(&[(Quota, 1, 60)], "Quota");
        check(&[(Topology, 1, 60), (Quota, 2, 60)], "Quota");
        check(&[(NoEligibleNode, 2, 45), (Capacity, 9, 60)], "NoEligibleNode");
        check(&[(PolicyPaused, 1, 45)], "PolicyPaused");
        check(&[(Quota, 0, 60)], "free");
    }

    #[test]
    fn a_reason_older_than_what_it_depends_on_is_stale() {
        use PendingReason::*;
        check(&[(Quota, 1, 49)], "stale");
        check(&[(Topology, 1, 49)], "Topology");
        check(&[(Topology, 1, 39)], "stale");
        check(&[(StaleCache, 1, 60)], "stale");
        check(&[(NotEvaluated, 1, 0)], "stale");
        let behind = Waiting { observed_generation: Some(Generation(1)), ..waiting(&[]) };
        assert!(matches!(hold(&behind, &Dependencies::default()), Hold::Stale { .. }));
        let untold = Waiting { observed_generation: None, ..waiting(&[]) };
        assert_eq!(hold(&untold, &Dependencies::default()), Hold::Free);
    }
}
