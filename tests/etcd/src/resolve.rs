//! Symbolic steps into requests on the wire.
//!
//! [`Bearings`] is what both sides share (the revisions reached so far, as the reference reported them);
//! [`LeaseSlots`] is what each side has of its own (the ids it picked). Not here: sending anything.

use std::collections::HashMap;

use setpoint_api::etcdserverpb as pb;

use crate::step::{
    CompareStep, DeleteStep, LeaseRef, Op, Operand, PutStep, RangeStep, Rev, TxnStep, WatchStep,
};

/// The id that stands for a slot no grant has filled. Servers pick positive ids, clients of this test small ones.
const UNGRANTED: i64 = -0x5e7_0000;

/// Where the store stands before a step.
#[derive(Clone, Copy, Debug)]
pub struct Bearings {
    pub revision: i64,
    /// The revision of the last compaction; 0 if there was none.
    pub compacted: i64,
}

impl Bearings {
    pub fn resolve(&self, rev: Rev) -> i64 {
        match rev {
            Rev::Unset => 0,
            Rev::Exactly(number) => number,
            Rev::Now(delta) => self.revision.saturating_add(delta),
            Rev::Compacted(delta) => self.compacted.saturating_add(delta),
        }
    }
}

/// The ids one server picked, by the slot of the grant.
#[derive(Clone, Debug, Default)]
pub struct LeaseSlots(HashMap<u32, i64>);

impl LeaseSlots {
    pub fn remember(&mut self, slot: u32, id: i64) {
        self.0.insert(slot, id);
    }

    /// Slots are numbered per sequence.
    pub fn forget_all(&mut self) {
        self.0.clear();
    }

    pub fn resolve(&self, lease: LeaseRef) -> i64 {
        match lease {
            LeaseRef::None => 0,
            LeaseRef::Id(id) => id,
            LeaseRef::Slot(slot) => self.0.get(&slot).copied().unwrap_or(UNGRANTED),
        }
    }
}

/// Everything needed to turn a step into one server's request.
#[derive(Clone, Copy, Debug)]
pub struct Resolver<'a> {
    pub bearings: &'a Bearings,
    pub leases: &'a LeaseSlots,
}

impl Resolver<'_> {
    pub fn range(&self, step: &RangeStep) -> pb::RangeRequest {
        pb::RangeRequest {
            key: step.key.bytes(),
            range_end: step.end.bytes(),
            limit: step.limit,
            revision: self.bearings.resolve(step.revision),
            sort_order: step.sort_order,
            sort_target: step.sort_target,
            serializable: step.serializable,
            keys_only: step.keys_only,
            count_only: step.count_only,
            min_mod_revision: self.bearings.resolve(step.min_mod),
            max_mod_revision: self.bearings.resolve(step.max_mod),
            min_create_revision: self.bearings.resolve(step.min_create),
            max_create_revision: self.bearings.resolve(step.max_create),
        }
    }

    pub fn put(&self, step: &PutStep) -> pb::PutRequest {
        pb::PutRequest {
            key: step.key.bytes(),
            value: step.value.bytes(),
            lease: self.leases.resolve(step.lease),
            prev_kv: step.prev_kv,
            ignore_value: step.ignore_value,
            ignore_lease: step.ignore_lease,
        }
    }

    pub fn delete(&self, step: &DeleteStep) -> pb::DeleteRangeRequest {
        pb::DeleteRangeRequest { key: step.key.bytes(), range_end: step.end.bytes(), prev_kv: step.prev_kv }
    }

    pub fn txn(&self, step: &TxnStep) -> pb::TxnRequest {
        pb::TxnRequest {
            compare: step.compare.iter().map(|compare| self.compare(compare)).collect(),
            success: step.success.iter().map(|op| self.op(op)).collect(),
            failure: step.failure.iter().map(|op| self.op(op)).collect(),
        }
    }

    fn op(&self, op: &Op) -> pb::RequestOp {
        use pb::request_op::Request;
        let request = match op {
            Op::Range(range) => Some(Request::RequestRange(self.range(range))),
            Op::Put(put) => Some(Request::RequestPut(self.put(put))),
            Op::Delete(delete) => Some(Request::RequestDeleteRange(self.delete(delete))),
            Op::Txn(txn) => Some(Request::RequestTxn(self.txn(txn))),
            Op::Empty => None,
        };
        pb::RequestOp { request }
    }

    fn compare(&self, step: &CompareStep) -> pb::Compare {
        use pb::compare::TargetUnion;
        let target_union = match &step.operand {
            Operand::Missing => None,
            Operand::Version(version) => Some(TargetUnion::Version(*version)),
            Operand::Create(rev) => Some(TargetUnion::CreateRevision(self.bearings.resolve(*rev))),
            Operand::Mod(rev) => Some(TargetUnion::ModRevision(self.bearings.resolve(*rev))),
            Operand::Value(value) => Some(TargetUnion::Value(value.bytes())),
            Operand::Lease(lease) => Some(TargetUnion::Lease(self.leases.resolve(*lease))),
        };
        pb::Compare {
            result: step.result,
            target: step.target,
            key: step.key.bytes(),
            range_end: step.end.bytes(),
            target_union,
        }
    }

    pub fn watch(&self, step: &WatchStep) -> pb::WatchCreateRequest {
        pb::WatchCreateRequest {
            key: step.key.bytes(),
            range_end: step.end.bytes(),
            start_revision: self.bearings.resolve(step.start),
            progress_notify: step.progress_notify,
            filters: step.filters.clone(),
            prev_kv: step.prev_kv,
            watch_id: step.id,
            fragment: step.fragment,
        }
    }
}
