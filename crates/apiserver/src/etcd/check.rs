//! What is refused before anything is proposed: everything that can be told from the request alone.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use bytes::Bytes;
use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::request_op::Request as Op;

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

/// The keys a branch puts and the ranges it deletes, at any depth. Joining two costs what the smaller one holds, so a
/// transaction is checked in little more than the time it takes to read it, whatever its shape.
#[derive(Default)]
struct Writes {
    puts: BTreeSet<Bytes>,
    deletes: Spans,
}

/// No key may be put twice, or put and deleted, on any path through the branch. The two branches of a nested
/// transaction exclude each other and may share keys.
fn written_once(ops: &[pb::RequestOp]) -> Result<Writes, EtcdError> {
    let mut writes = Writes::default();
    for op in ops {
        if let Some(Op::RequestDeleteRange(delete)) = &op.request {
            let (start, end) = affine(&delete.key, &delete.range_end);
            writes.deletes.add(start, end);
        }
    }
    for op in ops {
        let Some(Op::RequestTxn(nested)) = &op.request else { continue };
        let (success, failure) = (written_once(&nested.success)?, written_once(&nested.failure)?);
        let (smaller, mut either) = by_size(success.puts, failure.puts);
        either.extend(smaller);
        if writes.deletes.meet(&either) {
            return Err(EtcdError::DuplicateKey);
        }
        let (smaller, mut all) = by_size(std::mem::take(&mut writes.puts), either);
        if smaller.into_iter().any(|key| !all.insert(key)) {
            return Err(EtcdError::DuplicateKey);
        }
        writes.puts = all;
        writes.deletes = writes.deletes.join(success.deletes).join(failure.deletes);
    }
    for op in ops {
        let Some(Op::RequestPut(put)) = &op.request else { continue };
        if writes.deletes.contain(&put.key) || !writes.puts.insert(put.key.clone()) {
            return Err(EtcdError::DuplicateKey);
        }
    }
    Ok(writes)
}

fn by_size(a: BTreeSet<Bytes>, b: BTreeSet<Bytes>) -> (BTreeSet<Bytes>, BTreeSet<Bytes>) {
    if a.len() < b.len() { (a, b) } else { (b, a) }
}

/// The keys from the first up to the second. etcd's duplicate rule takes an end of one zero byte literally, so a delete
/// "from this key on" covers nothing here.
fn affine(key: &Bytes, range_end: &Bytes) -> (Bytes, Bytes) {
    if !range_end.is_empty() {
        return (key.clone(), range_end.clone());
    }
    let mut successor = Vec::with_capacity(key.len() + 1);
    successor.extend_from_slice(key);
    successor.push(0);
    (key.clone(), successor.into())
}

/// Ranges of keys that neither meet nor touch, each by its start with its end.
#[derive(Default)]
struct Spans(BTreeMap<Bytes, Bytes>);

impl Spans {
    fn add(&mut self, mut start: Bytes, mut end: Bytes) {
        if start >= end {
            return;
        }
        if let Some((before, until)) = self.at_or_before(&start)
            && *until >= start
        {
            start = before.clone();
        }
        let touched = (Bound::Included(&start[..]), Bound::Included(&end[..]));
        let touched: Vec<Bytes> = self.0.range::<[u8], _>(touched).map(|(start, _)| start.clone()).collect();
        for other in touched {
            end = self.0.remove(&other).map_or(end.clone(), |until| until.max(end));
        }
        self.0.insert(start, end);
    }

    fn join(self, other: Self) -> Self {
        let (smaller, mut larger) = if self.0.len() < other.0.len() { (self, other) } else { (other, self) };
        smaller.0.into_iter().for_each(|(start, end)| larger.add(start, end));
        larger
    }

    fn at_or_before(&self, key: &[u8]) -> Option<(&Bytes, &Bytes)> {
        self.0.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()
    }

    fn contain(&self, key: &[u8]) -> bool {
        self.at_or_before(key).is_some_and(|(_, end)| key < &end[..])
    }

    fn meet(&self, keys: &BTreeSet<Bytes>) -> bool {
        if keys.len() < self.0.len() {
            return keys.iter().any(|key| self.contain(key));
        }
        let within = |(start, end): (&Bytes, &Bytes)| {
            let span = (Bound::Included(&start[..]), Bound::Excluded(&end[..]));
            keys.range::<[u8], _>(span).next().is_some()
        };
        self.0.iter().any(within)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
    fn a_delete_from_a_key_on_covers_nothing_and_one_of_a_key_only_that() {
        assert_eq!(verdict(vec![delete_op("a", "\0"), put_op("b")]), Ok(()));
        assert_eq!(verdict(vec![delete_op("a", ""), put_op("a\0")]), Ok(()));
        assert_eq!(verdict(vec![delete_op("a", "b"), put_op("b")]), Ok(()));
    }

    #[test]
    fn a_large_transaction_is_checked_without_comparing_everything_with_everything() {
        let key = |kind: &str, number: u32| Bytes::from(format!("{number:08}/{kind}"));
        let put = |number| {
            let put = pb::PutRequest { key: key("put", number), ..Default::default() };
            pb::RequestOp { request: Some(Op::RequestPut(put)) }
        };
        let delete = |number| {
            let (start, end) = (key("a", number), key("b", number));
            let delete = pb::DeleteRangeRequest { key: start, range_end: end, ..Default::default() };
            pb::RequestOp { request: Some(Op::RequestDeleteRange(delete)) }
        };
        let many: Vec<_> = (0..100_000).map(put).chain((0..100_000).map(delete)).collect();
        // Deep as well: what is written below is held against what is written above.
        let deep = (0..40).fold(many, |inner, _| vec![txn_op(inner, vec![]), delete_op("x", "y")]);
        let request = pb::TxnRequest { success: deep, ..Default::default() };
        assert_eq!(txn(&request, usize::MAX), Ok(()));
    }

    proptest! {
        #[test]
        fn spans_hold_what_was_added_and_stay_apart(
            ranges in prop::collection::vec((0u8..30, 0u8..30), 0..20), keys in prop::collection::btree_set(0u8..30, 0..6),
        ) {
            let bytes = |byte: u8| Bytes::from(vec![byte]);
            let (mut spans, mut half) = (Spans::default(), Spans::default());
            for (place, (start, end)) in ranges.iter().enumerate() {
                let spans = if place % 2 == 0 { &mut spans } else { &mut half };
                spans.add(bytes(*start), bytes(*end));
            }
            let spans = spans.join(half);
            let covered = |key: u8| ranges.iter().any(|(start, end)| (*start..*end).contains(&key));
            for key in 0..30 {
                prop_assert_eq!(spans.contain(&[key]), covered(key), "{}", key);
            }
            let ends: Vec<_> = spans.0.iter().collect();
            prop_assert!(ends.windows(2).all(|pair| pair[0].1 < pair[1].0), "{:?}", ends);
            let set: BTreeSet<Bytes> = keys.iter().copied().map(bytes).collect();
            prop_assert_eq!(spans.meet(&set), keys.iter().any(|key| covered(*key)));
        }
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
