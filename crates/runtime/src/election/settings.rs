//! Every knob of an election, with its default, as a config file has it; and the same once it is known to make sense.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use setpoint_client::Backoff;
use setpoint_types::names::check_dns_label;

/// As long as the server lets a request wait.
const WAIT_MS_MAX: u64 = 60_000;
const DRAIN_MS_MAX: u64 = 60 * 60 * 1000;
/// Every member looks at all of them whenever one changes hands.
const SHARDS_MAX: u32 = 1024;

/// What a user may set. All of it is optional, and unknown names are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// How many leases the keys are split over; 1 is leader election. The same for every process of a controller: those that
    /// differ stand by until no process of the earlier number is left.
    pub shards: u32,
    /// How long a lease outlives its holder. The server may give more.
    pub ttl_seconds: u32,
    /// When a lease is renewed, in percent of its time.
    pub renew_percent: u32,
    /// How long before the end of its time a holder stops, in percent of it, if nothing was heard from the server. What the
    /// clocks of two machines differ in over one TTL has to fit in here, and so does stopping.
    pub margin_percent: u32,
    /// How long runs may take to end once their shard is to go to somebody else. Then they are cancelled.
    pub drain_ms: u64,
    /// How long one request stands in the queue of a lease. It is asked for again at once.
    pub wait_ms: u64,
    /// Where the leases are. It must exist.
    pub namespace: String,
}

impl Default for Settings {
    /// A crash is noticed in 15 s; two renewals may fail before anybody stops.
    fn default() -> Self {
        Self {
            shards: 1,
            ttl_seconds: 15,
            renew_percent: 33,
            margin_percent: 20,
            drain_ms: 10_000,
            wait_ms: 20_000,
            namespace: "default".to_owned(),
        }
    }
}

impl Settings {
    /// Every problem at once, or options that an election can be held with.
    pub fn check(self) -> Result<Options, SettingsError> {
        let mut problems = Vec::new();
        let mut within = |name, value: u64, least: u64, most: u64| {
            if !(least..=most).contains(&value) {
                problems.push(format!("{name} is {value}, and must be from {least} to {most}"));
            }
        };
        within("shards", self.shards.into(), 1, SHARDS_MAX.into());
        within("ttl_seconds", self.ttl_seconds.into(), 1, 3600);
        within("renew_percent", self.renew_percent.into(), 5, 60);
        within("margin_percent", self.margin_percent.into(), 5, 60);
        // At least one renewal has to fit between its time and the end.
        within("renew_percent + margin_percent", (self.renew_percent + self.margin_percent).into(), 10, 80);
        within("drain_ms", self.drain_ms, 0, DRAIN_MS_MAX);
        within("wait_ms", self.wait_ms, 100, WAIT_MS_MAX);
        if let Err(problem) = check_dns_label(&self.namespace) {
            problems.push(format!("namespace is {:?}, and {problem}", self.namespace));
        }
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

    pub fn ttl(&self) -> Duration {
        Duration::from_secs(self.0.ttl_seconds.into())
    }

    pub fn drain(&self) -> Duration {
        Duration::from_millis(self.0.drain_ms)
    }

    pub fn wait(&self) -> Duration {
        Duration::from_millis(self.0.wait_ms)
    }

    /// After the request that started a lease's time: when it is renewed.
    pub fn renew_after(&self, ttl: Duration) -> Duration {
        percent(ttl, self.0.renew_percent)
    }

    /// After the request that started a lease's time: until when its holder acts.
    pub fn valid_for(&self, ttl: Duration) -> Duration {
        percent(ttl, 100 - self.0.margin_percent)
    }

    /// How long one keep-alive may take: so that after one that hangs there is time for another.
    pub fn keep_patience(&self) -> Duration {
        percent(self.ttl(), 100 - self.0.margin_percent - self.0.renew_percent) / 2
    }

    /// Between attempts that failed.
    pub fn backoff(&self) -> Backoff {
        let most = self.renew_after(self.ttl());
        Backoff { first: Duration::from_millis(50).min(most), max: most }
    }
}

fn percent(of: Duration, percent: u32) -> Duration {
    of * percent / 100
}

/// What is wrong with settings, all of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct SettingsError {
    pub problems: Vec<String>,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("; "))
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
            shards: 0,
            renew_percent: 50,
            margin_percent: 40,
            namespace: "No".into(),
            ..Settings::default()
        };
        let error = settings.check().expect_err("three problems").to_string();
        let parts: Vec<&str> = error.split("; ").collect();
        assert_eq!(parts[0], "shards is 0, and must be from 1 to 1024");
        assert_eq!(parts[1], "renew_percent + margin_percent is 90, and must be from 10 to 80");
        assert!(parts[2].starts_with("namespace is \"No\""), "{error}");
    }

    #[test]
    fn a_file_may_leave_out_what_it_does_not_change_and_may_not_invent_names() {
        let settings: Settings = serde_json::from_str(r#"{"shards": 6}"#).expect("one of the settings");
        assert_eq!(settings, Settings { shards: 6, ..Settings::default() });
        assert!(serde_json::from_str::<Settings>(r#"{"shard": 6}"#).is_err());
    }

    #[test]
    fn a_keep_alive_that_hangs_leaves_time_for_another() {
        let options = Options::default();
        let (ttl, patience) = (options.ttl(), options.keep_patience());
        assert!(options.renew_after(ttl) + 2 * patience <= options.valid_for(ttl));
    }
}
