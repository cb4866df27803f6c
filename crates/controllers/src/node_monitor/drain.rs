//! Which replicas may leave a node that is being drained, within what their workloads allow. Pure.
//!
//! Of one workload one replica goes at a time, and only if enough others stay available. What stands in the way is named.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use setpoint_types::kinds::Rollout;
use setpoint_types::quantity::CountOrPercent;

/// How many blockers are named. The others are counted.
const NAMED_MAX: usize = 3;

/// What a workload allows, and how it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    pub desired: u32,
    /// Replicas that are ready and keep their node.
    pub available: u32,
    /// So many of those desired may be missing.
    pub missing_max: u32,
    /// Replicas that are leaving a node, this one or another.
    pub leaving: u32,
}

impl Budget {
    /// What a rollout may take, a drain may take. A share so small that it comes to nothing is one: who wants none to be missing says 0.
    pub fn missing_max(rollout: &Rollout, desired: u32) -> u32 {
        match rollout.max_unavailable {
            CountOrPercent::Count(count) => count,
            CountOrPercent::Percent(0) => 0,
            share => share.rounded_down(desired).max(1),
        }
    }

    /// Why none may leave now; none if one may.
    fn blocker(&self, available: bool) -> Option<String> {
        if self.leaving > 0 {
            return Some(format!("{} of its replicas is leaving a node already", self.leaving));
        }
        let missing = self.desired.saturating_sub(self.available);
        (available && missing + 1 > self.missing_max)
            .then(|| format!("{missing} of {} are missing, and {} may be", self.desired, self.missing_max))
    }
}

/// A replica on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaver {
    /// Its binding, `namespace/name`.
    pub binding: String,
    /// The budget it is counted by, `namespace/workload`. None: nobody's, or of a batch, which is tried again elsewhere.
    pub workload: Option<String>,
    /// Whether it is one of those that are available.
    pub available: bool,
}

/// Who leaves now, and what keeps the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Leaving {
    /// Bindings, `namespace/name`.
    pub now: Vec<String>,
    /// For people; empty if nothing stands in the way.
    pub blockers: String,
}

/// Chooses who leaves now.
pub fn leaving(leavers: &[Leaver], budgets: &BTreeMap<String, Budget>) -> Leaving {
    let mut now = Vec::new();
    let mut chosen: BTreeSet<&str> = BTreeSet::new();
    let mut blocked: BTreeMap<&str, String> = BTreeMap::new();
    // Those that are not available cost nothing, and go first.
    let mut order: Vec<&Leaver> = leavers.iter().collect();
    order.sort_by_key(|leaver| (leaver.available, leaver.binding.as_str()));
    for leaver in order {
        let budget = leaver.workload.as_deref().and_then(|workload| Some((workload, budgets.get(workload)?)));
        let Some((workload, budget)) = budget else {
            now.push(leaver.binding.clone());
            continue;
        };
        if chosen.contains(workload) || blocked.contains_key(workload) {
            continue;
        }
        match budget.blocker(leaver.available) {
            Some(why) => drop(blocked.insert(workload, why)),
            None => {
                chosen.insert(workload);
                now.push(leaver.binding.clone());
            }
        }
    }
    now.sort();
    Leaving { now, blockers: told(&blocked) }
}

fn told(blocked: &BTreeMap<&str, String>) -> String {
    let mut lines: Vec<String> =
        blocked.iter().take(NAMED_MAX).map(|(workload, why)| format!("{workload}: {why}")).collect();
    if blocked.len() > NAMED_MAX {
        lines.push(format!("and {} more workloads", blocked.len() - NAMED_MAX));
    }
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn leaver(binding: &str, workload: Option<&str>, available: bool) -> Leaver {
        Leaver { binding: binding.to_owned(), workload: workload.map(str::to_owned), available }
    }

    fn budget(desired: u32, available: u32, missing_max: u32, leaving: u32) -> Budget {
        Budget { desired, available, missing_max, leaving }
    }

    fn check(leavers: &[Leaver], budget: Budget, now: &[&str], blockers: &str) {
        let leaving = leaving(leavers, &[("d/web".to_owned(), budget)].into());
        assert_eq!(
            (leaving.now.iter().map(String::as_str).collect::<Vec<_>>(), &*leaving.blockers),
            (now.to_vec(), blockers)
        );
    }

    #[test]
    fn one_of_a_workload_leaves_at_a_time_within_its_budget() {
        let two = [leaver("d/web-0", Some("d/web"), true), leaver("d/web-1", Some("d/web"), true)];
        check(&two, budget(4, 4, 1, 0), &["d/web-0"], "");
        check(&two, budget(4, 4, 2, 1), &[], "d/web: 1 of its replicas is leaving a node already");
        check(&two, budget(4, 3, 1, 0), &[], "d/web: 1 of 4 are missing, and 1 may be");
        check(&two, budget(4, 4, 0, 0), &[], "d/web: 0 of 4 are missing, and 0 may be");
        check(&two, budget(4, 6, 1, 0), &["d/web-0"], "");
    }

    #[test]
    fn what_is_not_available_or_nobodys_may_always_go() {
        let some = [
            leaver("d/web-0", Some("d/web"), true),
            leaver("d/web-1", Some("d/web"), false),
            leaver("d/batch-0-0", None, true),
        ];
        check(&some, budget(4, 3, 0, 0), &["d/batch-0-0", "d/web-1"], "");
    }

    #[test]
    fn a_share_that_comes_to_nothing_is_one_and_a_zero_stays_a_zero() {
        let rollout = |max_unavailable| Rollout { max_unavailable, ..Rollout::default() };
        assert_eq!(Budget::missing_max(&rollout(CountOrPercent::Percent(25)), 3), 1);
        assert_eq!(Budget::missing_max(&rollout(CountOrPercent::Percent(25)), 8), 2);
        assert_eq!(Budget::missing_max(&rollout(CountOrPercent::Count(0)), 3), 0);
        assert_eq!(Budget::missing_max(&rollout(CountOrPercent::Percent(0)), 3), 0);
    }

    proptest! {
        /// However many nodes are drained in which order, no workload has more missing by it than it allows.
        #[test]
        fn a_drain_never_costs_more_than_the_budget(
            desired in 1..12u32,
            missing_max in 0..4u32,
            looks in prop::collection::vec((0..4usize, any::<bool>()), 1..60),
        ) {
            // Replica k is on node k % 4; it leaves, is gone for a while, and comes back elsewhere.
            let mut there: Vec<bool> = vec![true; desired as usize];
            let mut leaving_now: Vec<usize> = Vec::new();
            for (node, one_comes_back) in looks {
                if one_comes_back && let Some(back) = leaving_now.pop() {
                    there[back] = true;
                }
                let leavers: Vec<Leaver> = (0..there.len())
                    .filter(|it| it % 4 == node && there[*it])
                    .map(|it| leaver(&format!("d/web-{it}"), Some("d/web"), true))
                    .collect();
                let available = there.iter().filter(|it| **it).count() as u32;
                let now = budget(desired, available, missing_max, leaving_now.len() as u32);
                for binding in leaving(&leavers, &[("d/web".to_owned(), now)].into()).now {
                    let number: usize = binding.trim_start_matches("d/web-").parse().expect("a number");
                    there[number] = false;
                    leaving_now.push(number);
                }
                let missing = there.iter().filter(|it| !**it).count() as u32;
                prop_assert!(missing <= missing_max, "{missing} missing");
            }
        }
    }
}
