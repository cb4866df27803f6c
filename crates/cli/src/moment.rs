//! `--at`: a moment of the past, by its revision or its time.

use std::time::{Duration, UNIX_EPOCH};

use setpoint_client::ReadAt;
use setpoint_types::{Revision, Timestamp};

/// As it is written: `4711`, `2026-11-18T05:00:00Z`, `10m` ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    Revision(Revision),
    Time(Timestamp),
    Ago(Duration),
}

impl Moment {
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Ok(revision) = text.parse::<u64>() {
            return Ok(Self::Revision(Revision::new(revision)));
        }
        if let Ok(ago) = humantime::parse_duration(text) {
            return Ok(Self::Ago(ago));
        }
        let time = humantime::parse_rfc3339_weak(text).map_err(
            |_| "write a revision (4711), a time in UTC (2026-11-18T05:00:00Z) or how long ago (10m)",
        )?;
        let since = time.duration_since(UNIX_EPOCH).map_err(|_| "there was nothing before 1970")?;
        Ok(Self::Time(Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))))
    }

    pub fn read_at(self, now: Timestamp) -> ReadAt {
        match self {
            Self::Revision(revision) => ReadAt::Exact(revision),
            Self::Time(time) => ReadAt::Time(time),
            Self::Ago(ago) => {
                let millis = u64::try_from(ago.as_millis()).unwrap_or(u64::MAX);
                ReadAt::Time(Timestamp(now.0.saturating_sub(millis)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_times_and_spans_are_told_apart() {
        assert_eq!(Moment::parse("17"), Ok(Moment::Revision(Revision::new(17))));
        assert_eq!(Moment::parse("1970-01-01T00:00:02Z"), Ok(Moment::Time(Timestamp(2000))));
        assert_eq!(
            Moment::parse("10m").unwrap().read_at(Timestamp(700_000)),
            ReadAt::Time(Timestamp(100_000))
        );
        assert!(Moment::parse("yesterday").unwrap_err().contains("revision"));
    }
}
