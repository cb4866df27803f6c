//! Which signal may decide what about a node: a table, as data. Pure.
//!
//! Every signal has a way to be wrong, so each has a ceiling that no setting can raise: a heartbeat that is late proves nothing, and
//! costs nobody a replica.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What is seen of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// The agent itself says that the node is not ready.
    AgentNotReady,
    /// Keep-alives of the node's lease are late, as the leader counts.
    LeaseLate,
    /// The node's lease is not held.
    LeaseExpired,
    /// The same after everything up to a fresh revision was looked at, and while not all of the fleet is silent.
    LeaseExpiredConfirmed,
    /// The Node object is gone, and bindings to it are left.
    NodeGone,
    /// An administrator's word: the taint `setpoint/out-of-service`.
    OutOfService,
}

/// What is done about a node, from little to much. Each includes what is before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// It is written down.
    Note,
    /// It gets no new replicas.
    NoPlacement,
    /// Its bindings are called unknown.
    CallUnknown,
    /// Its replicas are given up, each after its own grace.
    GiveUp,
}

/// One row: a signal, what it decides unless told otherwise, and what it can be told at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub signal: Signal,
    pub default: Measure,
    pub ceiling: Measure,
}

/// The table. docs/controllers/node-monitor.md shows it to people.
pub const TABLE: [Row; 6] = [
    row(Signal::AgentNotReady, Measure::Note, Measure::NoPlacement),
    row(Signal::LeaseLate, Measure::NoPlacement, Measure::NoPlacement),
    row(Signal::LeaseExpired, Measure::CallUnknown, Measure::CallUnknown),
    row(Signal::LeaseExpiredConfirmed, Measure::GiveUp, Measure::GiveUp),
    row(Signal::NodeGone, Measure::GiveUp, Measure::GiveUp),
    row(Signal::OutOfService, Measure::GiveUp, Measure::GiveUp),
];

const fn row(signal: Signal, default: Measure, ceiling: Measure) -> Row {
    Row { signal, default, ceiling }
}

impl Signal {
    fn row(self) -> Row {
        let found = TABLE.into_iter().find(|row| row.signal == self);
        found.unwrap_or(row(self, Measure::Note, Measure::Note))
    }
}

/// What each signal decides here: the table with what the settings say otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MayDecide(pub BTreeMap<Signal, Measure>);

impl MayDecide {
    pub fn measure(&self, signal: Signal) -> Measure {
        let row = signal.row();
        self.0.get(&signal).copied().unwrap_or(row.default).min(row.ceiling)
    }

    /// What is asked for beyond a ceiling.
    pub fn problems(&self) -> Vec<String> {
        let beyond = |(signal, measure): (&Signal, &Measure)| {
            let ceiling = signal.row().ceiling;
            (*measure > ceiling)
                .then(|| format!("may_decide: {signal:?} cannot decide {measure:?}, but {ceiling:?} at most"))
        };
        self.0.iter().filter_map(beyond).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_setting_lets_a_late_heartbeat_decide_more_than_placement() {
        let told = MayDecide([(Signal::LeaseLate, Measure::GiveUp)].into());
        assert_eq!(told.measure(Signal::LeaseLate), Measure::NoPlacement);
        assert_eq!(
            told.problems(),
            ["may_decide: LeaseLate cannot decide GiveUp, but NoPlacement at most".to_owned()]
        );
        let less = MayDecide([(Signal::LeaseExpiredConfirmed, Measure::CallUnknown)].into());
        assert_eq!(less.measure(Signal::LeaseExpiredConfirmed), Measure::CallUnknown);
        assert!(less.problems().is_empty());
    }

    #[test]
    fn every_signal_has_its_row() {
        let rows: std::collections::BTreeSet<Signal> = TABLE.iter().map(|row| row.signal).collect();
        assert_eq!(rows.len(), TABLE.len());
        assert!(TABLE.iter().all(|row| row.default <= row.ceiling));
    }
}
