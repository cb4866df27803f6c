//! Lease requests. Leases that outlive their step are granted for so long that none expires during a run; expiry has a
//! scenario of its own.

use super::Maker;
use crate::step::{LeaseRef, Step};

/// Ids chosen by the client.
const IDS: [i64; 5] = [1, 2, 77, 1000, -7];
/// Ids that are never granted.
const UNKNOWN: [i64; 3] = [424_242, -424_242, i64::MAX];

const TTL_SECONDS_MAX: i64 = 9_000_000_000;

impl Maker {
    pub(super) fn lease(&mut self) -> Step {
        match self.rng.weighted(&[34, 10, 16, 16, 10, 14]) {
            0 => self.grant(),
            1 => {
                let ttl = *self.rng.pick(&[0, -1, 1, 2, 3, 30, i64::MIN, TTL_SECONDS_MAX + 1]);
                let lease = if self.rng.percent(50) { LeaseRef::None } else { LeaseRef::Id(31_337) };
                Step::GrantBriefly { lease, ttl }
            }
            2 => {
                let lease = self.some_lease();
                self.leases.retain(|granted| *granted != lease);
                Step::Revoke { lease }
            }
            3 => Step::TimeToLive { lease: self.some_lease(), keys: self.rng.percent(60) },
            4 => Step::Leases,
            _ => Step::KeepAlive { lease: self.some_lease() },
        }
    }

    fn grant(&mut self) -> Step {
        let ttl = match self.rng.weighted(&[80, 10, 10]) {
            0 => self.rng.between(600, 10_000),
            1 => TTL_SECONDS_MAX,
            _ => *self.rng.pick(&[TTL_SECONDS_MAX + 1, i64::MAX]),
        };
        let lease = if self.rng.percent(50) {
            self.next_slot += 1;
            LeaseRef::Slot(self.next_slot)
        } else {
            LeaseRef::Id(*self.rng.pick(&IDS))
        };
        if !self.leases.contains(&lease) {
            self.leases.push(lease);
        }
        Step::Grant { lease, ttl }
    }

    /// A lease for a request: mostly one that was granted, sometimes one that was not, sometimes none.
    pub(super) fn some_lease(&mut self) -> LeaseRef {
        if !self.leases.is_empty() && self.rng.percent(75) {
            return *self.rng.pick(&self.leases);
        }
        match self.rng.below(3) {
            0 => LeaseRef::Id(*self.rng.pick(&IDS)),
            1 => LeaseRef::Id(*self.rng.pick(&UNKNOWN)),
            _ => LeaseRef::None,
        }
    }
}
