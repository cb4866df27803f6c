//! The knobs of the node monitor, with their defaults, and what makes sense of them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::signals::MayDecide;

/// What a user may set. All of it is optional, and unknown names are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeMonitorSettings {
    /// How often a node that is not well is looked at again; no answer of the leader about leases is used for longer than this.
    pub period_seconds: u32,
    /// A keep-alive is late when so much of the lease's time has passed without one, in percent.
    pub late_percent: u32,
    /// What each signal may decide, where it is not what the table says.
    pub may_decide: MayDecide,
    /// In one zone, so long passes at least between one node that is given up and the next.
    pub give_up_every_seconds: u32,
    /// The same while much of the zone is silent: then rather the network is broken than the nodes.
    pub give_up_every_seconds_disrupted: u32,
    /// From this share of silent nodes on, in percent, much of a zone is silent,
    pub disrupted_percent: u32,
    /// if it is so many at least.
    pub disrupted_nodes_min: u32,
    /// From this share on, in percent, a zone is silent as a whole. If all zones are, nothing is given up: then it is we who are cut off.
    pub silent_percent: u32,
    /// How often a node that is being drained is looked at.
    pub drain_period_seconds: u32,
}

impl Default for NodeMonitorSettings {
    /// Half of a lease is two keep-alives that did not come. One node in ten seconds, one in a hundred where more than half of a zone
    /// is silent: a rack that lost its switch comes back before many of its replicas were moved.
    fn default() -> Self {
        Self {
            period_seconds: 5,
            late_percent: 50,
            may_decide: MayDecide::default(),
            give_up_every_seconds: 10,
            give_up_every_seconds_disrupted: 100,
            disrupted_percent: 55,
            disrupted_nodes_min: 3,
            silent_percent: 100,
            drain_period_seconds: 2,
        }
    }
}

impl NodeMonitorSettings {
    /// Everything that makes no sense.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = self.may_decide.problems();
        let mut within = |name: &str, value: u32, least: u32, most: u32| {
            if !(least..=most).contains(&value) {
                problems.push(format!("{name} is {value}, and must be from {least} to {most}"));
            }
        };
        within("period_seconds", self.period_seconds, 1, 600);
        within("late_percent", self.late_percent, 40, 95);
        within("give_up_every_seconds", self.give_up_every_seconds, 0, 86_400);
        let disrupted = self.give_up_every_seconds_disrupted;
        within("give_up_every_seconds_disrupted", disrupted, self.give_up_every_seconds.min(86_400), 86_400);
        within("disrupted_percent", self.disrupted_percent, 1, 100);
        within("disrupted_nodes_min", self.disrupted_nodes_min, 1, 100_000);
        within("silent_percent", self.silent_percent, self.disrupted_percent.clamp(1, 100), 100);
        within("drain_period_seconds", self.drain_period_seconds, 1, 600);
        problems
    }

    pub fn period(&self) -> Duration {
        Duration::from_secs(self.period_seconds.into())
    }

    pub fn drain_period(&self) -> Duration {
        Duration::from_secs(self.drain_period_seconds.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_make_sense_and_every_problem_is_named() {
        assert!(NodeMonitorSettings::default().problems().is_empty());
        let wrong = NodeMonitorSettings {
            late_percent: 5,
            give_up_every_seconds_disrupted: 1,
            ..NodeMonitorSettings::default()
        };
        let problems = wrong.problems();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].starts_with("late_percent is 5"), "{problems:?}");
    }
}
