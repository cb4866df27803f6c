//! How long a key that failed waits.
//!
//! The wait grows with each failure up to a limit, and a part of it is left to chance, so that keys which failed together do
//! not come back together. Not here: which failures count (`slot.rs`).

use std::time::Duration;

use super::moment::nanos;
use super::settings::Options;

/// More doublings than any wait has room for.
const STEPS_MAX: u32 = 64;

#[derive(Clone, Debug)]
pub struct Backoff {
    first_nanos: u64,
    factor: u64,
    max_nanos: u64,
    jitter_percent: u64,
    calm_percent: u64,
}

impl Backoff {
    pub fn new(options: &Options) -> Self {
        let settings = options.settings();
        Self {
            first_nanos: nanos(options.backoff_first()),
            factor: settings.backoff_factor.into(),
            max_nanos: nanos(options.backoff_max()),
            jitter_percent: settings.backoff_jitter_percent.into(),
            calm_percent: settings.event_wait_percent.into(),
        }
    }

    /// The wait after so many failures; `random` is uniform over all numbers.
    pub fn delay(&self, failures: u32, random: u64) -> Duration {
        let full = self.full_nanos(failures);
        let chance = share(full, self.jitter_percent);
        // The upper half of a product of 128 bits: a number below `chance`, as uniform as `random` is.
        let shorter = (u128::from(chance) * u128::from(random)) >> 64;
        Duration::from_nanos(full - u64::try_from(shorter).unwrap_or(chance))
    }

    /// The part of a wait that a change does not shorten.
    pub fn calm(&self, delay: Duration) -> Duration {
        Duration::from_nanos(share(nanos(delay), self.calm_percent))
    }

    fn full_nanos(&self, failures: u32) -> u64 {
        let mut wait = self.first_nanos;
        for _ in 1..failures.min(STEPS_MAX) {
            wait = wait.saturating_mul(self.factor);
            if wait >= self.max_nanos {
                return self.max_nanos;
            }
        }
        wait
    }
}

fn share(nanos: u64, percent: u64) -> u64 {
    let share = u128::from(nanos) * u128::from(percent) / 100;
    u64::try_from(share).unwrap_or(nanos)
}

#[cfg(test)]
mod tests {
    use super::super::settings::Settings;
    use super::*;

    fn backoff(first: u64, factor: u32, max: u64, jitter: u32) -> Backoff {
        let settings = Settings {
            backoff_first_ms: first,
            backoff_factor: factor,
            backoff_max_ms: max,
            backoff_jitter_percent: jitter,
            ..Settings::default()
        };
        Backoff::new(&settings.check().expect("settings within bounds"))
    }

    fn waits(backoff: &Backoff, random: u64) -> Vec<u128> {
        (1..=6).map(|failures| backoff.delay(failures, random).as_millis()).collect()
    }

    #[test]
    fn each_failure_lengthens_the_wait_up_to_the_limit() {
        assert_eq!(waits(&backoff(50, 2, 1000, 0), 7), [50, 100, 200, 400, 800, 1000]);
        assert_eq!(waits(&backoff(50, 10, 1000, 0), 7), [50, 500, 1000, 1000, 1000, 1000]);
        assert_eq!(waits(&backoff(50, 1, 1000, 0), 7), [50; 6]);
    }

    #[test]
    fn chance_only_shortens_and_by_no_more_than_its_part() {
        let backoff = backoff(100, 2, 1000, 50);
        assert_eq!(backoff.delay(1, 0).as_millis(), 100);
        assert_eq!(backoff.delay(1, u64::MAX / 2).as_millis(), 75);
        assert_eq!(backoff.delay(1, u64::MAX).as_millis(), 50);
    }

    #[test]
    fn no_number_of_failures_is_too_large() {
        let longest = backoff(24 * 60 * 60 * 1000, 100, 24 * 60 * 60 * 1000, 100);
        assert_eq!(longest.delay(u32::MAX, 0), Duration::from_secs(24 * 60 * 60));
        assert!(longest.delay(u32::MAX, u64::MAX) < Duration::from_millis(1));
    }
}
