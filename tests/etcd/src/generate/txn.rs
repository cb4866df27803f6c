//! Transactions: compares of every kind, both branches, nested up to three deep, and the ones that must be refused.

use std::collections::BTreeSet;

use super::kv::number;
use super::{Maker, keys};
use crate::blob::Blob;
use crate::step::{CompareStep, DeleteStep, LeaseRef, Op, Operand, RangeStep, Rev, TxnStep};

const DEPTH_MAX: u32 = 3;
/// etcd's limit on operations is 128.
const TOO_MANY: usize = 129;

// `Compare.CompareTarget` and `Compare.CompareResult`.
const TARGET_LAST: i64 = 4;
const RESULT_LAST: i64 = 3;
const EQUAL: i32 = 0;
const NOT_EQUAL: i32 = 3;

/// The keys a careful transaction has written so far. `None` lets it write a key twice, which must be refused.
type Written = Option<BTreeSet<Blob>>;

impl Maker {
    pub(super) fn txn(&mut self) -> TxnStep {
        if self.rng.percent(1) {
            return self.txn_too_large();
        }
        let mut written = if self.rng.percent(80) { Some(BTreeSet::new()) } else { None };
        let reads_only = self.rng.percent(15);
        self.txn_of(1, reads_only, &mut written)
    }

    fn txn_of(&mut self, depth: u32, reads_only: bool, written: &mut Written) -> TxnStep {
        let compares = self.rng.weighted(&[25, 45, 20, 10]);
        let compare = (0..compares).map(|_| self.compare()).collect();
        // Keys may repeat between the branches, since only one of them runs, but not within one.
        let mut other = written.clone();
        let success = self.branch(depth, reads_only, written);
        let failure = self.branch(depth, reads_only, &mut other);
        if let (Some(written), Some(other)) = (written, other) {
            written.extend(other);
        }
        TxnStep { compare, success, failure }
    }

    fn branch(&mut self, depth: u32, reads_only: bool, written: &mut Written) -> Vec<Op> {
        let length = self.rng.weighted(&[15, 30, 25, 20, 10]);
        (0..length).map(|_| self.op(depth, reads_only, written)).collect()
    }

    fn op(&mut self, depth: u32, reads_only: bool, written: &mut Written) -> Op {
        let nested = if depth < DEPTH_MAX { 12 } else { 0 };
        let writes = if reads_only { 0 } else { 1 };
        match self.rng.weighted(&[30, 40 * writes, 16 * writes, nested, 1]) {
            0 => Op::Range(self.op_range()),
            1 => self.op_put(written),
            2 => self.op_delete(written),
            3 => Op::Txn(self.txn_of(depth + 1, reads_only, written)),
            _ => Op::Empty,
        }
    }

    /// Reads within a transaction: a bad revision or option refuses the whole transaction, so they are rarer here.
    fn op_range(&mut self) -> RangeStep {
        let mut step = self.range();
        if self.rng.percent(70) {
            step.revision = Rev::Unset;
        }
        // An undefined order is a known deviation, and would put the servers out of step.
        step.sort_order = step.sort_order.clamp(0, 2);
        step
    }

    fn op_put(&mut self, written: &mut Written) -> Op {
        let key = keys::key_or_none(&mut self.rng);
        if written.as_mut().is_some_and(|keys| !keys.insert(key.clone())) {
            return Op::Range(self.op_range());
        }
        let mut put = self.put_of(key);
        // A put that keeps the value or lease of a key which the same transaction has deleted kills etcd 3.5, where its
        // check for duplicates misses the deletion. So only careful transactions have such puts.
        if written.is_none() || self.rng.percent(70) {
            (put.ignore_value, put.ignore_lease) = (false, false);
        }
        Op::Put(put)
    }

    fn op_delete(&mut self, written: &mut Written) -> Op {
        let mut delete = self.delete();
        // etcd's check for duplicates misses deletions without an end. A key that is deleted and put at the same revision
        // then leaves half a history behind when that revision is compacted, so only a scenario does that.
        if delete.end == keys::first() {
            delete.end = Blob::default();
        }
        if let Some(keys) = written {
            // A single key that no put of the transaction touches.
            delete.end = Blob::default();
            if !keys.insert(delete.key.clone()) {
                return Op::Range(self.op_range());
            }
        }
        Op::Delete(DeleteStep { prev_kv: self.rng.percent(40), ..delete })
    }

    fn compare(&mut self) -> CompareStep {
        let rng = &mut self.rng;
        let (key, end) =
            if rng.percent(25) { keys::range(rng) } else { (keys::key_or_none(rng), Blob::default()) };
        let target = number(rng, TARGET_LAST);
        let mut result = number(rng, RESULT_LAST);
        let kind = match rng.weighted(&[88, 8, 4]) {
            0 => target,
            1 => i32::try_from(rng.between(0, TARGET_LAST)).unwrap_or(0),
            _ => -1,
        };
        let operand = match kind {
            0 => Operand::Version(rng.between(-1, 4)),
            1 => Operand::Create(self.compare_revision()),
            2 => Operand::Mod(self.compare_revision()),
            3 => Operand::Value(keys::value(rng)),
            4 => Operand::Lease(self.some_lease()),
            _ => Operand::Missing,
        };
        if let Operand::Lease(LeaseRef::Slot(_)) = operand
            && result != EQUAL
        {
            // Whether one id picked by a server is less than another is its own affair.
            result = NOT_EQUAL;
        }
        CompareStep { key, end, target, result, operand }
    }

    fn compare_revision(&mut self) -> Rev {
        match self.rng.weighted(&[40, 15, 40, 5]) {
            0 => Rev::Unset,
            1 => Rev::Now(0),
            2 => Rev::Now(-self.rng.between(1, 8)),
            _ => Rev::Exactly(*self.rng.pick(&[-1, 1, i64::MAX])),
        }
    }

    fn txn_too_large(&mut self) -> TxnStep {
        let read = Op::Range(RangeStep { key: keys::key(&mut self.rng), ..RangeStep::default() });
        let mut txn = TxnStep::default();
        match self.rng.below(3) {
            0 => {
                txn.compare =
                    vec![CompareStep { key: keys::key(&mut self.rng), ..CompareStep::default() }; TOO_MANY]
            }
            1 => txn.success = vec![read; TOO_MANY],
            _ => txn.failure = vec![read; TOO_MANY],
        }
        txn
    }
}
