//! Every knob of a queue, with its default, as a config file has it; and the same once it is known to make sense.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The longest time that may be set: a day. What is longer is a mistake in the unit.
const MS_MAX: u64 = 24 * 60 * 60 * 1000;
const KEYS_MAX: usize = 100_000_000;

/// What a user may set. All of it is optional, and unknown names are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Distinct keys that the queue knows at a time: ready, waiting for their time, and running.
    pub keys_max: usize,
    /// How much of that keys of [`Priority::Bulk`](super::Priority::Bulk) may fill, in percent. The rest is kept for what
    /// is new, so that a flood of initial state never shuts it out.
    pub bulk_percent_max: u32,
    /// After an overflow, a resync is asked for once no more than this part of `keys_max` is in use.
    pub resync_percent: u32,
    /// The wait after a first failure.
    pub backoff_first_ms: u64,
    /// By how much each further failure lengthens it. With 1 it stays the same.
    pub backoff_factor: u32,
    /// The longest wait.
    pub backoff_max_ms: u64,
    /// How much of a wait is left to chance, in percent: 50 gives between half of it and all of it. With up to 50 and a
    /// factor of 2 or more no wait is shorter than the one before.
    pub backoff_jitter_percent: u32,
    /// How much of a wait a change cannot shorten, in percent: with 0 a change runs its key at once, and a key that fails and
    /// changes without end runs without end; with 100 a change never shortens a wait.
    pub event_wait_percent: u32,
    /// Runs of all keys together that may begin in a second, on average; 0 for no limit.
    pub starts_per_second: u32,
    /// How many may begin at once after a quiet time.
    pub starts_burst: u32,
    /// How many keys in succession may be handed out past a level that has some. Smaller is more even, larger stricter.
    pub ageing_gets: u32,
    /// Keys of one tenant that may run at a time, so that one whose runs hang cannot hold every worker; 0 for no limit.
    pub tenant_running_max: u32,
}

impl Default for Settings {
    /// The limit on starts is a fuse and not a throttle: a controller that runs 10,000 keys a second for no reason should not
    /// become 10,000 requests a second and more. The rest follows from it and from what users of such queues complain of:
    /// waits of a quarter of an hour, and changes that are not looked at meanwhile.
    fn default() -> Self {
        Self {
            keys_max: 1_000_000,
            bulk_percent_max: 75,
            resync_percent: 50,
            backoff_first_ms: 50,
            backoff_factor: 2,
            backoff_max_ms: 5 * 60 * 1000,
            backoff_jitter_percent: 50,
            event_wait_percent: 10,
            starts_per_second: 10_000,
            starts_burst: 10_000,
            ageing_gets: 16,
            tenant_running_max: 0,
        }
    }
}

impl Settings {
    /// Every problem at once, or options that a queue can be made with.
    pub fn check(self) -> Result<Options, SettingsError> {
        let mut problems = Vec::new();
        let mut within = |name, value: u64, least: u64, most: u64| {
            if !(least..=most).contains(&value) {
                problems.push(SettingsProblem { name, value, least, most });
            }
        };
        within("keys_max", self.keys_max as u64, 1, KEYS_MAX as u64);
        within("bulk_percent_max", self.bulk_percent_max.into(), 1, 100);
        within("resync_percent", self.resync_percent.into(), 0, 99);
        within("backoff_first_ms", self.backoff_first_ms, 1, MS_MAX);
        within("backoff_factor", self.backoff_factor.into(), 1, 100);
        within("backoff_max_ms", self.backoff_max_ms, self.backoff_first_ms.clamp(1, MS_MAX), MS_MAX);
        within("backoff_jitter_percent", self.backoff_jitter_percent.into(), 0, 100);
        within("event_wait_percent", self.event_wait_percent.into(), 0, 100);
        within("starts_per_second", self.starts_per_second.into(), 0, 1_000_000_000);
        within("starts_burst", self.starts_burst.into(), 1, 1_000_000_000);
        within("ageing_gets", self.ageing_gets.into(), 1, 1_000_000);
        match problems.is_empty() {
            true => Ok(Options(self)),
            false => Err(SettingsError { problems }),
        }
    }
}

/// Settings that were checked. There is no other way to get some, except the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options(Settings);

impl Options {
    pub fn settings(&self) -> &Settings {
        &self.0
    }

    pub(super) fn backoff_first(&self) -> Duration {
        Duration::from_millis(self.0.backoff_first_ms)
    }

    pub(super) fn backoff_max(&self) -> Duration {
        Duration::from_millis(self.0.backoff_max_ms)
    }

    /// Keys there may be before one of bulk is refused. At least one, or an empty queue would refuse it.
    pub(super) fn bulk_keys_max(&self) -> usize {
        percent(self.0.keys_max, self.0.bulk_percent_max).max(1)
    }

    pub(super) fn resync_keys_max(&self) -> usize {
        percent(self.0.keys_max, self.0.resync_percent)
    }
}

fn percent(of: usize, percent: u32) -> usize {
    of * percent as usize / 100
}

/// What is wrong with settings.
#[derive(Debug, thiserror::Error)]
pub struct SettingsError {
    pub problems: Vec<SettingsProblem>,
}

/// One that is out of its bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsProblem {
    pub name: &'static str,
    pub value: u64,
    pub least: u64,
    pub most: u64,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let SettingsProblem { name, value, least, most } = problem;
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{name} is {value}, and must be from {least} to {most}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_within_their_own_bounds() {
        assert_eq!(Settings::default().check().expect("defaults"), Options::default());
    }

    #[test]
    fn every_problem_is_reported_by_its_name() {
        let settings = Settings {
            keys_max: 0,
            backoff_first_ms: 9,
            backoff_max_ms: 8,
            starts_burst: 0,
            ..Settings::default()
        };
        let error = settings.check().expect_err("three problems").to_string();
        assert_eq!(
            error,
            "keys_max is 0, and must be from 1 to 100000000; backoff_max_ms is 8, and must be from 9 to 86400000; \
             starts_burst is 0, and must be from 1 to 1000000000"
        );
    }

    #[test]
    fn a_file_may_leave_out_what_it_does_not_change_and_may_not_invent_names() {
        let settings: Settings = serde_json::from_str(r#"{"keys_max": 5}"#).expect("one of the settings");
        assert_eq!(settings, Settings { keys_max: 5, ..Settings::default() });
        assert!(serde_json::from_str::<Settings>(r#"{"key_max": 5}"#).is_err());
    }
}
