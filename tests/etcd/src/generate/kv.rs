//! Range, Put, DeleteRange and Compact with every option.

use super::{Maker, keys};
use crate::step::{DeleteStep, LeaseRef, PutStep, RangeStep, Rev, Step};

/// Enumeration numbers that no version of the protocol defines.
const UNDEFINED: [i32; 3] = [-1, 9, i32::MAX];

impl Maker {
    pub(super) fn range(&mut self) -> RangeStep {
        let rng = &mut self.rng;
        let (key, end) = keys::range(rng);
        let limit = match rng.weighted(&[60, 33, 3, 4]) {
            0 => 0,
            1 => rng.between(1, 5),
            2 => -1,
            _ => *rng.pick(&[i64::MAX, i64::MIN, 100]),
        };
        let sorted = rng.percent(35);
        let sort_order = if sorted { number(rng, 2) } else { 0 };
        // Never an undefined target: etcd 3.5 dies of it, so there is nothing to compare with.
        let sort_target = if sorted { i32::try_from(rng.between(0, 4)).unwrap_or(0) } else { 0 };
        let mut step = RangeStep {
            key,
            end,
            limit,
            sort_order,
            sort_target,
            revision: self.read_revision(),
            ..RangeStep::default()
        };
        let rng = &mut self.rng;
        step.serializable = rng.percent(25);
        step.keys_only = rng.percent(12);
        step.count_only = rng.percent(8);
        if rng.percent(15) {
            let mut bound = || if rng.percent(50) { Rev::Now(rng.between(-8, 2)) } else { Rev::Unset };
            (step.min_mod, step.max_mod) = (bound(), bound());
            (step.min_create, step.max_create) = (bound(), bound());
        }
        step
    }

    /// A revision to read at.
    pub(super) fn read_revision(&mut self) -> Rev {
        let rng = &mut self.rng;
        match rng.weighted(&[60, 6, 18, 4, 3, 3, 3, 3]) {
            0 => Rev::Unset,
            1 => Rev::Now(0),
            2 => Rev::Now(-rng.between(1, 10)),
            3 => Rev::Now(rng.between(1, 3)),
            4 => Rev::Compacted(-1),
            5 => Rev::Compacted(0),
            6 => Rev::Compacted(1),
            _ => Rev::Exactly(*rng.pick(&[-1, 1, 2, i64::MAX, i64::MIN])),
        }
    }

    pub(super) fn put(&mut self) -> PutStep {
        let key = keys::key_or_none(&mut self.rng);
        self.put_of(key)
    }

    pub(super) fn put_of(&mut self, key: crate::blob::Blob) -> PutStep {
        let lease = if self.rng.percent(15) { self.some_lease() } else { LeaseRef::None };
        let rng = &mut self.rng;
        let mut step = PutStep { key, value: keys::value(rng), lease, ..PutStep::default() };
        step.prev_kv = rng.percent(25);
        step.ignore_value = rng.percent(8);
        step.ignore_lease = rng.percent(8);
        // Most of the time without the value or lease that these options forbid.
        if step.ignore_value && rng.percent(70) {
            step.value = crate::blob::Blob::default();
        }
        if step.ignore_lease && rng.percent(70) {
            step.lease = LeaseRef::None;
        }
        step
    }

    pub(super) fn delete(&mut self) -> DeleteStep {
        let (key, end) = keys::range(&mut self.rng);
        DeleteStep { key, end, prev_kv: self.rng.percent(35) }
    }

    pub(super) fn compact(&mut self) -> Step {
        let rng = &mut self.rng;
        let revision = match rng.weighted(&[12, 40, 10, 14, 6, 10, 8]) {
            0 => Rev::Now(0),
            1 => Rev::Now(-rng.between(1, 12)),
            2 => Rev::Compacted(0),
            3 => Rev::Compacted(rng.between(1, 4)),
            4 => Rev::Compacted(-1),
            5 => Rev::Now(rng.between(1, 5)),
            _ => Rev::Exactly(*rng.pick(&[0, -1, i64::MAX, i64::MIN])),
        };
        Step::Compact { revision, physical: rng.percent(25) }
    }
}

/// A number from 0 to `last`, or once in a while an undefined one.
pub(super) fn number(rng: &mut super::Prng, last: i64) -> i32 {
    if rng.percent(4) { *rng.pick(&UNDEFINED) } else { i32::try_from(rng.between(0, last)).unwrap_or(0) }
}
