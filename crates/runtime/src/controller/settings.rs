//! Every knob of a controller, with its default, as a config file has it; and the same once it is known to make sense.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::queue::{self, SettingsError, SettingsProblem};

/// A day. What is longer is a mistake in the unit.
const MS_MAX: u64 = 24 * 60 * 60 * 1000;

/// What a user may set. All of it is optional, and unknown names are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ControllerSettings {
    /// Keys that are run at a time.
    pub concurrency: usize,
    /// Leases that the keys are split over: so many processes can work at once. All replicas of a controller must agree.
    pub shards: u32,
    /// How long a run may take. It is dropped then, and tried again after its backoff.
    pub timeout_ms: u64,
    /// How often every key is run though nothing changed, each at its own time; 0 for never.
    pub resync_ms: u64,
    /// The shortest time that a run may ask to be run again after. What is shorter is lengthened, and counted.
    pub requeue_min_ms: u64,
    /// The longest. What is longer is shortened, and counted.
    pub requeue_max_ms: u64,
    /// After so many failures in a row, or so many runs that wrote the same again, a key shows that it is stalled.
    pub stalled_after: u32,
    /// Two managers that set a part of an object to and fro within this time are reported.
    pub oscillation_window_ms: u64,
    /// A key whose writes the caches have not seen for so long makes the controller ask whether the cluster still has them.
    pub visible_within_ms: u64,
    /// Whether what goes wrong is shown as conditions of the object, if its kind has them.
    pub conditions: bool,
    pub queue: queue::Settings,
}

impl Default for ControllerSettings {
    /// A minute is longer than any reconcile should take, and short enough for a hanging one to be noticed. An hour finds what
    /// was missed within a working day, at one run per second for 3,600 objects.
    fn default() -> Self {
        Self {
            concurrency: 4,
            shards: 1,
            timeout_ms: 60_000,
            resync_ms: 60 * 60 * 1000,
            requeue_min_ms: 100,
            requeue_max_ms: MS_MAX,
            stalled_after: 8,
            oscillation_window_ms: 60_000,
            visible_within_ms: 30_000,
            conditions: true,
            queue: queue::Settings::default(),
        }
    }
}

impl ControllerSettings {
    /// Every problem at once, or options that a controller can be made with.
    pub(crate) fn check(self) -> Result<Options, SettingsError> {
        let mut problems = Vec::new();
        let mut within = |name, value: u64, least: u64, most: u64| {
            if !(least..=most).contains(&value) {
                problems.push(SettingsProblem { name, value, least, most });
            }
        };
        within("concurrency", self.concurrency as u64, 1, 4096);
        within("shards", self.shards.into(), 1, 1024);
        within("timeout_ms", self.timeout_ms, 1, MS_MAX);
        within("resync_ms", self.resync_ms, 0, 30 * MS_MAX);
        within("requeue_min_ms", self.requeue_min_ms, 1, MS_MAX);
        within("requeue_max_ms", self.requeue_max_ms, self.requeue_min_ms.clamp(1, MS_MAX), 365 * MS_MAX);
        within("stalled_after", self.stalled_after.into(), 1, 1_000_000);
        within("oscillation_window_ms", self.oscillation_window_ms, 1, MS_MAX);
        within("visible_within_ms", self.visible_within_ms, 1, MS_MAX);
        let queue = match self.queue.clone().check() {
            Ok(queue) => Some(queue),
            Err(error) => {
                problems.extend(error.problems);
                None
            }
        };
        match queue {
            Some(queue) if problems.is_empty() => Ok(Options { settings: self, queue }),
            _ => Err(SettingsError { problems }),
        }
    }
}

/// Settings that were checked.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub settings: ControllerSettings,
    pub queue: queue::Options,
}

impl Options {
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.settings.timeout_ms)
    }

    pub fn resync(&self) -> Option<Duration> {
        (self.settings.resync_ms > 0).then(|| Duration::from_millis(self.settings.resync_ms))
    }

    pub fn requeue_min(&self) -> Duration {
        Duration::from_millis(self.settings.requeue_min_ms)
    }

    pub fn requeue_max(&self) -> Duration {
        Duration::from_millis(self.settings.requeue_max_ms)
    }

    pub fn oscillation_window(&self) -> Duration {
        Duration::from_millis(self.settings.oscillation_window_ms)
    }

    pub fn visible_within(&self) -> Duration {
        Duration::from_millis(self.settings.visible_within_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_within_their_own_bounds() {
        ControllerSettings::default().check().expect("defaults");
    }

    #[test]
    fn every_problem_is_reported_at_once_those_of_the_queue_included() {
        let queue = queue::Settings { keys_max: 0, ..queue::Settings::default() };
        let settings = ControllerSettings { concurrency: 0, timeout_ms: 0, queue, ..Default::default() };
        let names: Vec<&str> =
            settings.check().expect_err("three").problems.iter().map(|it| it.name).collect();
        assert_eq!(names, ["concurrency", "timeout_ms", "keys_max"]);
    }

    #[test]
    fn a_file_may_leave_out_what_it_does_not_change_and_may_not_invent_names() {
        let settings: ControllerSettings =
            serde_json::from_str(r#"{"concurrency": 9, "queue": {"keys_max": 5}}"#).expect("some of them");
        assert_eq!((settings.concurrency, settings.queue.keys_max, settings.shards), (9, 5, 1));
        assert!(serde_json::from_str::<ControllerSettings>(r#"{"workers": 9}"#).is_err());
    }
}
