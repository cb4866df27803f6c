//! Which records are too many: by age, and by how many there are in a namespace. Pure.

use serde::{Deserialize, Serialize};
use setpoint_types::{Revision, Timestamp, Uid};

/// How long records of one kind are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Since they were last told of.
    pub age_seconds: u64,
    /// In one namespace. The oldest go first.
    pub count_max: usize,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// When it was last told of.
    pub last: Timestamp,
    pub name: String,
    pub uid: Uid,
    pub revision: Revision,
}

/// Those that go, oldest first.
pub fn expired(mut records: Vec<Record>, retention: Retention, now: Timestamp) -> Vec<Record> {
    records.sort();
    let limit = retention.age_seconds.saturating_mul(1000);
    let too_many = records.len().saturating_sub(retention.count_max);
    let too_old = records.partition_point(|it| now.0.saturating_sub(it.last.0) > limit);
    records.truncate(too_many.max(too_old));
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(times: &[u64], age_seconds: u64, count_max: usize, expected: &[u64]) {
        let records = times.iter().map(|time| Record {
            last: Timestamp(*time),
            name: time.to_string(),
            uid: Uid::default(),
            revision: Revision::NONE,
        });
        let gone = expired(records.collect(), Retention { age_seconds, count_max }, Timestamp(10_000));
        assert_eq!(gone.iter().map(|it| it.last.0).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_oldest_go_when_they_are_too_old_or_too_many() {
        check(&[9_000, 1_000, 5_000], 100, 10, &[]);
        check(&[9_000, 1_000, 5_000], 5, 10, &[1_000]);
        check(&[9_000, 1_000, 5_000], 100, 1, &[1_000, 5_000]);
        check(&[9_000, 1_000, 5_000], 5, 1, &[1_000, 5_000]);
        check(&[], 1, 0, &[]);
    }
}
