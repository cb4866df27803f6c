//! What is refused before anything is proposed: everything that can be told from the request alone.

use std::collections::BTreeSet;

use bytes::Bytes;
use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::request_op::Request as Op;
use setpoint_types::KeyRange;

use super::error::EtcdError;

type Checked = Result<(), EtcdError>;

pub fn range(request: &pb::RangeRequest) -> Checked {
    if request.key.is_empty() {
        return Err(EtcdError::EmptyKey);
    }
    let known = pb::range_request::SortOrder::try_from(request.sort_order).is_ok()
        && pb::range_request::SortTarget::try_from(request.sort_target).is_ok();
    if known { Ok(()) } else { Err(EtcdError::InvalidSortOption) }
}

pub fn put(request: &pb::PutRequest) -> Checked {
    if request.key.is_empty() {
        return Err(EtcdError::EmptyKey);
    }
    if request.ignore_value && !request.value.is_empty() {
        return Err(EtcdError::ValueProvided);
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(EtcdError::LeaseProvided);
    }
    Ok(())
}

pub fn delete_range(request: &pb::DeleteRangeRequest) -> Checked {
    if request.key.is_empty() { Err(EtcdError::EmptyKey) } else { Ok(()) }
}

/// A transaction as a whole: sizes, every operation, and that no branch writes a key twice.
pub fn txn(request: &pb::TxnRequest, ops_max: usize) -> Checked {
    txn_ops(request, ops_max)?;
    written_once(&request.success)?;
    written_once(&request.failure)?;
    Ok(())
}

fn txn_ops(request: &pb::TxnRequest, ops_max: usize) -> Checked {
    let ops = request.compare.len().max(request.success.len()).max(request.failure.len());
    // A nested transaction has what its parents left.
    let left = ops_max.checked_sub(ops).ok_or(EtcdError::TooManyOps)?;
    if request.compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(EtcdError::EmptyKey);
    }
    for op in request.success.iter().chain(&request.failure) {
        match &op.request {
            Some(Op::RequestRange(request)) => range(request)?,
            Some(Op::RequestPut(request)) => put(request)?,
            Some(Op::RequestDeleteRange(request)) => delete_range(request)?,
            Some(Op::RequestTxn(request)) => txn_ops(request, left)?,
            None => return Err(EtcdError::KeyNotFound),
        }
    }
    Ok(())
}

/// The keys a branch puts and the ranges it deletes, at any depth.
#[derive(Default)]
struct Writes {
    puts: BTreeSet<Bytes>,
    deletes: Vec<KeyRange>,
}

impl Writes {
    fn refuse_deleted<'a>(&self, keys: impl IntoIterator<Item = &'a Bytes>) -> Checked {
        let deleted = |key: &Bytes| self.deletes.iter().any(|range| range.contains(key));
        if keys.into_iter().any(deleted) { Err(EtcdError::DuplicateKey) } else { Ok(()) }
    }
}

/// No key may be put twice, or put and deleted, on any path through the branch. The two branches of a nested
/// transaction exclude each other and may share keys.
fn written_once(ops: &[pb::RequestOp]) -> Result<Writes, EtcdError> {
    let mut writes = Writes::default();
    for op in ops {
        if let Some(Op::RequestDeleteRange(delete)) = &op.request {
            writes.deletes.push(affine(delete.key.clone(), delete.range_end.clone()));
        }
    }
    for op in ops {
        let Some(Op::RequestTxn(nested)) = &op.request else { continue };
        let (success, failure) = (written_once(&nested.success)?, written_once(&nested.failure)?);
        let either: BTreeSet<Bytes> = success.puts.union(&failure.puts).cloned().collect();
        if !writes.puts.is_disjoint(&either) {
            return Err(EtcdError::DuplicateKey);
        }
        writes.refuse_deleted(&either)?;
        writes.puts.extend(either);
        writes.deletes.extend(success.deletes);
        writes.deletes.extend(failure.deletes);
    }
    for op in ops {
        let Some(Op::RequestPut(put)) = &op.request else { continue };
        writes.refuse_deleted([&put.key])?;
        if !writes.puts.insert(put.key.clone()) {
            return Err(EtcdError::DuplicateKey);
        }
    }
    Ok(writes)
}

/// etcd's duplicate rule takes an end of one zero byte literally, so a delete "from this key on" covers nothing here.
fn affine(key: Bytes, range_end: Bytes) -> KeyRange {
    if range_end.is_empty() { KeyRange::Single(key) } else { KeyRange::Span { start: key, end: range_end } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put_op(key: &'static str) -> pb::RequestOp {
        let put = pb::PutRequest { key: key.into(), ..Default::default() };
        pb::RequestOp { request: Some(Op::RequestPut(put)) }
    }

    fn delete_op(key: &'static str, end: &'static str) -> pb::RequestOp {
        let delete = pb::DeleteRangeRequest { key: key.into(), range_end: end.into(), ..Default::default() };
        pb::RequestOp { request: Some(Op::RequestDeleteRange(delete)) }
    }

    fn txn_op(success: Vec<pb::RequestOp>, failure: Vec<pb::RequestOp>) -> pb::RequestOp {
        let txn = pb::TxnRequest { success, failure, compare: Vec::new() };
        pb::RequestOp { request: Some(Op::RequestTxn(txn)) }
    }

    fn verdict(success: Vec<pb::RequestOp>) -> Checked {
        txn(&pb::TxnRequest { success, ..Default::default() }, 128)
    }

    #[test]
    fn a_key_is_written_once_on_every_path() {
        let duplicate = Err(EtcdError::DuplicateKey);
        assert_eq!(verdict(vec![put_op("a"), put_op("b")]), Ok(()));
        assert_eq!(verdict(vec![put_op("a"), put_op("a")]), duplicate);
        assert_eq!(verdict(vec![put_op("b"), delete_op("a", "c")]), duplicate);
        assert_eq!(verdict(vec![delete_op("a", "c"), delete_op("b", "")]), Ok(()));
        assert_eq!(verdict(vec![txn_op(vec![put_op("a")], vec![put_op("a")])]), Ok(()));
        assert_eq!(verdict(vec![txn_op(vec![put_op("a")], vec![]), put_op("a")]), duplicate);
        assert_eq!(
            verdict(vec![txn_op(vec![put_op("a")], vec![]), txn_op(vec![], vec![put_op("a")])]),
            duplicate
        );
        assert_eq!(verdict(vec![txn_op(vec![delete_op("a", "")], vec![]), put_op("a")]), duplicate);
    }

    #[test]
    fn nested_transactions_share_the_budget_of_operations() {
        let many = |n: usize| (0..n).map(|_| delete_op("k", "")).collect::<Vec<_>>();
        assert_eq!(verdict(many(128)), Ok(()));
        assert_eq!(verdict(many(129)), Err(EtcdError::TooManyOps));
        assert_eq!(verdict(vec![txn_op(many(127), vec![])]), Ok(()));
        assert_eq!(verdict(vec![txn_op(many(128), vec![])]), Err(EtcdError::TooManyOps));
    }

    #[test]
    fn an_operation_that_is_nothing_is_refused() {
        assert_eq!(verdict(vec![pb::RequestOp { request: None }]), Err(EtcdError::KeyNotFound));
        assert_eq!(verdict(vec![put_op("")]), Err(EtcdError::EmptyKey));
    }
}
