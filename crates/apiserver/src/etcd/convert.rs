//! Between etcd's messages and the store's types. Requests are checked before they get here.

use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use setpoint_api::etcdserverpb::range_request::{SortOrder, SortTarget as WireTarget};
use setpoint_api::etcdserverpb::request_op::Request as Op;
use setpoint_api::etcdserverpb::response_op::Response as OpResponse;
use setpoint_api::mvccpb;
use setpoint_store::command::{
    Bounds, Compare, DeleteRange, Operand, Operator, Order, Put, Range, SortTarget, Txn, TxnOp,
};
use setpoint_store::{KeyValue, RangeResult, Response, TxnResult};
use setpoint_types::{KeyRange, LeaseId, Revision};

pub fn range(request: pb::RangeRequest) -> Range {
    let order = match request.sort_order() {
        SortOrder::None => Order::Unspecified,
        SortOrder::Ascend => Order::Ascending,
        SortOrder::Descend => Order::Descending,
    };
    let by = match request.sort_target() {
        WireTarget::Key => SortTarget::Key,
        WireTarget::Version => SortTarget::Version,
        WireTarget::Create => SortTarget::Created,
        WireTarget::Mod => SortTarget::Modified,
        WireTarget::Value => SortTarget::Value,
    };
    Range {
        range: KeyRange::from_wire(request.key, request.range_end),
        limit: request.limit,
        revision: request.revision,
        order,
        by,
        keys_only: request.keys_only,
        count_only: request.count_only,
        bounds: Bounds {
            modified_min: request.min_mod_revision,
            modified_max: request.max_mod_revision,
            created_min: request.min_create_revision,
            created_max: request.max_create_revision,
        },
    }
}

pub fn put(request: pb::PutRequest) -> Put {
    Put {
        key: request.key,
        value: request.value,
        lease: LeaseId(request.lease),
        want_previous: request.prev_kv,
        keep_value: request.ignore_value,
        keep_lease: request.ignore_lease,
    }
}

pub fn delete_range(request: pb::DeleteRangeRequest) -> DeleteRange {
    DeleteRange { range: KeyRange::from_wire(request.key, request.range_end), want_previous: request.prev_kv }
}

pub fn txn(request: pb::TxnRequest) -> Txn {
    Txn {
        compares: request.compare.into_iter().map(compare).collect(),
        success: request.success.into_iter().filter_map(txn_op).collect(),
        failure: request.failure.into_iter().filter_map(txn_op).collect(),
    }
}

fn txn_op(op: pb::RequestOp) -> Option<TxnOp> {
    Some(match op.request? {
        Op::RequestRange(request) => TxnOp::Range(range(request)),
        Op::RequestPut(request) => TxnOp::Put(put(request)),
        Op::RequestDeleteRange(request) => TxnOp::DeleteRange(delete_range(request)),
        Op::RequestTxn(request) => TxnOp::Txn(txn(request)),
    })
}

/// An operand of another kind than the target counts as zero or empty, and so does a missing one.
fn compare(request: pb::Compare) -> Compare {
    let operator = match CompareResult::try_from(request.result) {
        Ok(CompareResult::Equal) => Operator::Equal,
        Ok(CompareResult::Greater) => Operator::Greater,
        Ok(CompareResult::Less) => Operator::Less,
        Ok(CompareResult::NotEqual) => Operator::NotEqual,
        Err(_) => Operator::Unknown,
    };
    let operand = match (CompareTarget::try_from(request.target), request.target_union) {
        (Ok(CompareTarget::Version), Some(TargetUnion::Version(number))) => Operand::Version(number),
        (Ok(CompareTarget::Version), _) => Operand::Version(0),
        (Ok(CompareTarget::Create), Some(TargetUnion::CreateRevision(number))) => Operand::Created(number),
        (Ok(CompareTarget::Create), _) => Operand::Created(0),
        (Ok(CompareTarget::Mod), Some(TargetUnion::ModRevision(number))) => Operand::Modified(number),
        (Ok(CompareTarget::Mod), _) => Operand::Modified(0),
        (Ok(CompareTarget::Lease), Some(TargetUnion::Lease(number))) => Operand::Lease(number),
        (Ok(CompareTarget::Lease), _) => Operand::Lease(0),
        (Ok(CompareTarget::Value), Some(TargetUnion::Value(value))) => Operand::Value(value),
        (Ok(CompareTarget::Value), _) => Operand::Value(Default::default()),
        (Err(_), _) => Operand::Unknown,
    };
    Compare { range: KeyRange::from_wire(request.key, request.range_end), operator, operand }
}

pub fn key_value(kv: KeyValue) -> mvccpb::KeyValue {
    mvccpb::KeyValue {
        key: kv.key,
        create_revision: kv.created.wire(),
        mod_revision: kv.modified.wire(),
        version: kv.version as i64,
        value: kv.value,
        lease: kv.lease.0,
    }
}

/// The header of an answer inside a transaction: only the revision.
fn inner(revision: Revision) -> Option<pb::ResponseHeader> {
    Some(pb::ResponseHeader { revision: revision.wire(), ..Default::default() })
}

pub fn range_response(result: RangeResult, header: Option<pb::ResponseHeader>) -> pb::RangeResponse {
    pb::RangeResponse {
        header,
        kvs: result.kvs.into_iter().map(key_value).collect(),
        more: result.more,
        count: result.count as i64,
    }
}

pub fn put_response(previous: Option<KeyValue>, header: Option<pb::ResponseHeader>) -> pb::PutResponse {
    pb::PutResponse { header, prev_kv: previous.map(key_value) }
}

pub fn delete_response(
    deleted: u64,
    previous: Vec<KeyValue>,
    header: Option<pb::ResponseHeader>,
) -> pb::DeleteRangeResponse {
    let prev_kvs = previous.into_iter().map(key_value).collect();
    pb::DeleteRangeResponse { header, deleted: deleted as i64, prev_kvs }
}

pub fn txn_response(result: TxnResult, header: Option<pb::ResponseHeader>) -> pb::TxnResponse {
    let responses = result.responses.into_iter().filter_map(op_response).collect();
    pb::TxnResponse { header, succeeded: result.succeeded, responses }
}

fn op_response(response: Response) -> Option<pb::ResponseOp> {
    let response = match response {
        Response::Range(result) => {
            let header = inner(result.revision);
            OpResponse::ResponseRange(range_response(result, header))
        }
        Response::Put { revision, previous } => {
            OpResponse::ResponsePut(put_response(previous, inner(revision)))
        }
        Response::DeleteRange { revision, deleted, previous } => {
            OpResponse::ResponseDeleteRange(delete_response(deleted, previous, inner(revision)))
        }
        Response::Txn(result) => OpResponse::ResponseTxn(txn_response(result, Some(Default::default()))),
        // A transaction holds none of the others.
        _ => return None,
    };
    Some(pb::ResponseOp { response: Some(response) })
}
