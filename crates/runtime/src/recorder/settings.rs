//! Every knob of a recorder, with its default, as a config file has it.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The longest time that may be set: a day. What is longer is a mistake in the unit.
const MS_MAX: u64 = 24 * 60 * 60 * 1000;

/// What a user may set. All of it is optional, and unknown names are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecorderSettings {
    /// Of each, events and decisions: how many different ones are in memory at a time.
    pub tallies_max: usize,
    /// How much of that is kept for the first of a reason, in percent: variants of known ones are dropped earlier.
    pub reserved_percent: u32,
    /// Variants of one reason for one object that are told apart. Further ones are counted together.
    pub variants_max: usize,
    /// How long repetitions are counted before the count is written.
    pub settle_ms: u64,
    /// Writes about one object by one component: so many at once,
    pub object_burst: u32,
    /// and after that one in each such time.
    pub object_interval_ms: u64,
    /// Writes of all together in a second, on average; 0 for no limit.
    pub writes_per_second: u32,
    /// How many writes may be under way at a time.
    pub writes_at_once: usize,
    /// The wait after a first failed write, which doubles with each further one,
    pub backoff_first_ms: u64,
    /// up to this.
    pub backoff_max_ms: u64,
    /// One write may take so long, with all attempts of the client.
    pub write_timeout_ms: u64,
    /// How long a shutdown waits for what has not been written.
    pub flush_timeout_ms: u64,
    /// Where the events of objects are that have no namespace.
    pub cluster_namespace: String,
    pub detail: DetailSettings,
}

/// How much of a decision is written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DetailSettings {
    /// Namespaces whose decisions are all written in full.
    pub priority_tenants: BTreeSet<String>,
    /// How many of ten thousand others are, too. Which ones, follows from the decision and not from chance.
    pub sampled_per_10000: u32,
    /// Everything in full, for as long as something is being looked into.
    pub incident: bool,
}

impl Default for DetailSettings {
    fn default() -> Self {
        Self { priority_tenants: BTreeSet::new(), sampled_per_10000: 100, incident: false }
    }
}

impl Default for RecorderSettings {
    /// For a controller of thousands of objects: some megabytes of memory, and at the worst a hundred small writes a second.
    fn default() -> Self {
        Self {
            tallies_max: 4096,
            reserved_percent: 25,
            variants_max: 8,
            settle_ms: 10_000,
            object_burst: 25,
            object_interval_ms: 30_000,
            writes_per_second: 100,
            writes_at_once: 8,
            backoff_first_ms: 500,
            backoff_max_ms: 60_000,
            write_timeout_ms: 10_000,
            flush_timeout_ms: 5_000,
            cluster_namespace: "default".to_owned(),
            detail: DetailSettings::default(),
        }
    }
}

/// A setting that is out of its bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} is {value}: it must be from {least} to {most}")]
pub struct SettingProblem {
    pub name: &'static str,
    pub value: u64,
    pub least: u64,
    pub most: u64,
}

impl RecorderSettings {
    /// All that is wrong with them.
    pub fn problems(&self) -> Vec<SettingProblem> {
        let bounds = [
            ("tallies_max", self.tallies_max as u64, 1, 1_000_000),
            ("reserved_percent", self.reserved_percent.into(), 0, 100),
            ("variants_max", self.variants_max as u64, 1, 1000),
            ("settle_ms", self.settle_ms, 0, MS_MAX),
            ("object_burst", self.object_burst.into(), 1, 1_000_000),
            ("object_interval_ms", self.object_interval_ms, 0, MS_MAX),
            ("writes_per_second", self.writes_per_second.into(), 0, 1_000_000),
            ("writes_at_once", self.writes_at_once as u64, 1, 1000),
            ("backoff_first_ms", self.backoff_first_ms, 1, MS_MAX),
            ("backoff_max_ms", self.backoff_max_ms, self.backoff_first_ms.clamp(1, MS_MAX), MS_MAX),
            ("write_timeout_ms", self.write_timeout_ms, 1, MS_MAX),
            ("flush_timeout_ms", self.flush_timeout_ms, 0, MS_MAX),
            ("detail.sampled_per_10000", self.detail.sampled_per_10000.into(), 0, 10_000),
        ];
        let wrong = bounds.into_iter().filter(|(_, value, least, most)| !(least..=most).contains(&value));
        wrong.map(|(name, value, least, most)| SettingProblem { name, value, least, most }).collect()
    }

    pub(super) fn settle(&self) -> Duration {
        Duration::from_millis(self.settle_ms)
    }

    pub(super) fn object_interval(&self) -> Duration {
        Duration::from_millis(self.object_interval_ms)
    }

    /// Tallies there may be before a variant of a known reason is refused. One at least, or a lone first could have no variant.
    pub(super) fn variants_room(&self) -> usize {
        (self.tallies_max * (100 - self.reserved_percent.min(100) as usize) / 100).max(1)
    }
}
