//! A limit on how often something may begin: the runs of all keys together, or what a recorder writes.
//!
//! A bucket of tokens, kept as the one moment at which it would be full again: no timer fills it, and nothing is rounded
//! away over time.

use std::time::Duration;

use super::moment::Moment;
use super::settings::Options;

#[derive(Clone, Debug)]
pub struct Bucket {
    /// The time in which a token comes back; nothing without a limit.
    interval: Duration,
    /// The time in which all tokens but one come back.
    slack: Duration,
    full_at: Moment,
}

impl Bucket {
    /// Full.
    pub fn new(options: &Options) -> Self {
        let settings = options.settings();
        Self::per_second(settings.starts_per_second, settings.starts_burst)
    }

    /// Full; with a rate of 0 there is no limit.
    pub fn per_second(rate: u32, burst: u32) -> Self {
        let interval = match rate {
            0 => Duration::ZERO,
            rate => Duration::from_nanos(1_000_000_000 / u64::from(rate)),
        };
        Self::every(interval, burst)
    }

    /// Full, with a token that comes back in each interval.
    pub fn every(interval: Duration, burst: u32) -> Self {
        let slack = interval.saturating_mul(burst.saturating_sub(1));
        Self { interval, slack, full_at: Moment::default() }
    }

    /// Takes a token, or says when there will be one.
    pub fn take(&mut self, now: Moment) -> Result<(), Moment> {
        let full_at = self.full_at.max(now);
        let missing = full_at.since(now);
        if missing > self.slack {
            return Err(now.after(missing - self.slack));
        }
        self.full_at = full_at.after(self.interval);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::Settings;
    use super::*;

    fn bucket(starts_per_second: u32, starts_burst: u32) -> Bucket {
        let settings = Settings { starts_per_second, starts_burst, ..Settings::default() };
        Bucket::new(&settings.check().expect("settings within bounds"))
    }

    fn ms(ms: u64) -> Moment {
        Moment::at(Duration::from_millis(ms))
    }

    #[test]
    fn a_full_bucket_gives_its_burst_and_then_its_rate() {
        let mut bucket = bucket(10, 3);
        for _ in 0..3 {
            assert_eq!(bucket.take(ms(1000)), Ok(()));
        }
        assert_eq!(bucket.take(ms(1000)), Err(ms(1100)));
        assert_eq!(bucket.take(ms(1099)), Err(ms(1100)));
        assert_eq!(bucket.take(ms(1100)), Ok(()));
        assert_eq!(bucket.take(ms(1100)), Err(ms(1200)));
    }

    #[test]
    fn a_quiet_time_gives_back_no_more_than_the_burst() {
        let mut bucket = bucket(10, 2);
        let taken = (0..5).filter(|_| bucket.take(ms(1_000_000)).is_ok()).count();
        assert_eq!(taken, 2);
    }

    #[test]
    fn without_a_limit_there_is_always_a_token() {
        let mut bucket = bucket(0, 1);
        assert!((0..1000).all(|_| bucket.take(ms(1)).is_ok()));
    }
}
