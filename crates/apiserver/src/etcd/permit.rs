//! What each request of etcd's protocol needs to be allowed, and how it is told that it is not.
//!
//! A transaction needs everything that it could do: its compares, both branches, and what is nested in them. A backup
//! shows everything, and needs what reading everything would. A lease has no key of its own: making one needs some key
//! that its holder may write, and what happens to its keys by it needs what doing that directly would.

use std::collections::BTreeSet;

use bytes::Bytes;
use setpoint_access::{Need, Verb, key_read, key_watch};
use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::request_op::Request as Op;
use setpoint_store::command::{Txn, TxnOp};
use setpoint_store::{Response as Verdict, TxnResult};
use setpoint_types::{KeyRange, LeaseId};
use tonic::{Request, Status};

use super::context::Context;
use super::error::EtcdError;
use crate::access::{Caller, Denied, Pass};

impl Context {
    /// Whether a request that reads is allowed.
    pub fn may_read<T>(
        &self,
        request: &Request<T>,
        needs: impl FnOnce(&T) -> Vec<Need>,
    ) -> Result<(), Status> {
        if self.gate.is_open() {
            return Ok(());
        }
        self.may(&Caller::of(request), || needs(request.get_ref()))
    }

    /// The same for what is only known later.
    pub fn may(&self, caller: &Caller, needs: impl FnOnce() -> Vec<Need>) -> Result<(), Status> {
        self.gate.check(caller, needs).map_err(denied)
    }

    /// Whether a request may attach keys to these leases: it shares them with those that are attached already, whose owner
    /// could else be kept from renewing or revoking the lease.
    pub async fn may_attach<T: Sync, L>(
        &self,
        request: &Request<T>,
        leases: impl FnOnce(&T) -> L + Send,
    ) -> Result<(), Status>
    where
        L: IntoIterator<Item = LeaseId>,
    {
        if self.gate.is_open() {
            return Ok(());
        }
        let leases: Vec<LeaseId> =
            leases(request.get_ref()).into_iter().filter(|lease| !lease.is_none()).collect();
        if leases.is_empty() {
            return Ok(());
        }
        // What was attached at another node counts, too.
        self.barrier().await?;
        let caller = Caller::of(request);
        leases.iter().try_for_each(|lease| self.may(&caller, || renew(*lease, attached(self, *lease))))
    }

    /// Whether a request that writes is allowed; the pass is to be told what came of it.
    pub fn may_write<T>(
        &self,
        request: &Request<T>,
        needs: impl FnOnce(&T) -> Vec<Need>,
    ) -> Result<Pass, Status> {
        if self.gate.is_open() {
            return Ok(Pass::default());
        }
        self.gate.enter(&Caller::of(request), "", || needs(request.get_ref())).map_err(denied)
    }
}

/// The keys that are attached to a lease, as far as this node knows.
pub fn attached(context: &Context, lease: LeaseId) -> impl Iterator<Item = Bytes> + use<> {
    context.replica.store.lease(lease).into_iter().flat_map(|it| it.keys)
}

/// Begins as etcd says it, for programs, and goes on for people.
pub fn denied(denied: Denied) -> Status {
    let error = EtcdError::PermissionDenied;
    Status::new(error.code(), format!("{}: {denied}", error.text()))
}

pub fn range(request: &pb::RangeRequest) -> Vec<Need> {
    key_read(&keys(&request.key, &request.range_end))
}

pub fn put(request: &pb::PutRequest) -> Vec<Need> {
    let previous = request.prev_kv.then(|| key_read(&KeyRange::Single(request.key.clone())));
    std::iter::once(Need::put(request.key.clone())).chain(previous.into_iter().flatten()).collect()
}

pub fn delete_range(request: &pb::DeleteRangeRequest) -> Vec<Need> {
    let range = keys(&request.key, &request.range_end);
    let previous = request.prev_kv.then(|| key_read(&range));
    std::iter::once(Need::delete_keys(range)).chain(previous.into_iter().flatten()).collect()
}

pub fn txn(request: &pb::TxnRequest) -> Vec<Need> {
    let compared = request.compare.iter().flat_map(|it| key_read(&keys(&it.key, &it.range_end)));
    let mut needs: Vec<Need> = compared.collect();
    for op in request.success.iter().chain(&request.failure) {
        needs.extend(match &op.request {
            Some(Op::RequestRange(request)) => range(request),
            Some(Op::RequestPut(request)) => put(request),
            Some(Op::RequestDeleteRange(request)) => delete_range(request),
            Some(Op::RequestTxn(request)) => txn(request),
            None => Vec::new(),
        });
    }
    needs
}

/// The leases that a transaction could attach keys to.
pub fn leases(request: &pb::TxnRequest) -> BTreeSet<LeaseId> {
    let ops = request.success.iter().chain(&request.failure);
    let found = ops.flat_map(|op| match &op.request {
        Some(Op::RequestPut(put)) => BTreeSet::from([LeaseId(put.lease)]),
        Some(Op::RequestTxn(nested)) => leases(nested),
        _ => BTreeSet::new(),
    });
    found.collect()
}

/// What a transaction has written, of all that it could have.
pub fn written(txn: &Txn, result: &TxnResult) -> Vec<Need> {
    let branch = if result.succeeded { &txn.success } else { &txn.failure };
    let mut needs = Vec::new();
    for (op, verdict) in branch.iter().zip(&result.responses) {
        match (op, verdict) {
            (TxnOp::Put(put), _) => needs.push(Need::put(put.key.clone())),
            (TxnOp::DeleteRange(delete), _) => needs.push(Need::delete_keys(delete.range.clone())),
            (TxnOp::Txn(nested), Verdict::Txn(result)) => needs.extend(written(nested, result)),
            _ => {}
        }
    }
    needs
}

pub fn watch(request: &pb::WatchCreateRequest) -> Vec<Need> {
    let key = if request.key.is_empty() { Bytes::from_static(&[0]) } else { request.key.clone() };
    key_watch(&keys(&key, &request.range_end))
}

/// What ending a lease needs, by which its keys are deleted.
pub fn revoke(id: LeaseId, keys: impl IntoIterator<Item = Bytes>) -> Vec<Need> {
    of_lease(Verb::Delete, id, keys, |key| vec![Need::delete_keys(KeyRange::Single(key))])
}

/// What renewing a lease needs, by which its keys are kept.
pub fn renew(id: LeaseId, keys: impl IntoIterator<Item = Bytes>) -> Vec<Need> {
    of_lease(Verb::Update, id, keys, |key| vec![Need::put(key)])
}

/// What being shown the keys of a lease needs.
pub fn show(id: LeaseId, keys: impl IntoIterator<Item = Bytes>) -> Vec<Need> {
    of_lease(Verb::Get, id, keys, |key| key_read(&KeyRange::Single(key)))
}

fn of_lease(
    verb: Verb,
    id: LeaseId,
    keys: impl IntoIterator<Item = Bytes>,
    key: impl Fn(Bytes) -> Vec<Need>,
) -> Vec<Need> {
    std::iter::once(Need::lease(verb, id)).chain(keys.into_iter().flat_map(key)).collect()
}

/// What reading everything there is needs.
pub fn everything() -> Vec<Need> {
    key_read(&KeyRange::From(Bytes::new()))
}

pub fn keys(key: &Bytes, range_end: &Bytes) -> KeyRange {
    KeyRange::from_wire(key.clone(), range_end.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put_op(key: &'static str) -> TxnOp {
        TxnOp::Put(setpoint_store::command::Put { key: key.into(), ..Default::default() })
    }

    fn verdict() -> Verdict {
        Verdict::Put { revision: Default::default(), previous: None }
    }

    #[test]
    fn only_the_branch_that_was_taken_counts_as_written_at_any_depth() {
        let nested = Txn { compares: Vec::new(), success: vec![put_op("a")], failure: vec![put_op("b")] };
        let txn = Txn {
            compares: Vec::new(),
            success: vec![put_op("c"), TxnOp::Txn(nested)],
            failure: vec![put_op("d")],
        };
        let inner = TxnResult { succeeded: false, responses: vec![verdict()], revision: Default::default() };
        let result = TxnResult {
            succeeded: true,
            responses: vec![verdict(), Verdict::Txn(inner)],
            revision: Default::default(),
        };
        assert_eq!(written(&txn, &result), [Need::put("c".into()), Need::put("b".into())]);
    }

    #[test]
    fn a_transaction_needs_its_compares_both_branches_and_what_is_nested() {
        let attach = |key: &'static str, prev_kv, lease| {
            let put = pb::PutRequest { key: key.into(), prev_kv, lease, ..Default::default() };
            pb::RequestOp { request: Some(Op::RequestPut(put)) }
        };
        let put = |key, prev_kv| attach(key, prev_kv, 0);
        let delete = pb::DeleteRangeRequest { key: "e".into(), range_end: "g".into(), prev_kv: true };
        let nested = pb::TxnRequest {
            compare: vec![pb::Compare { key: "n".into(), ..Default::default() }],
            success: vec![pb::RequestOp { request: Some(Op::RequestDeleteRange(delete)) }],
            failure: vec![attach("n", false, 8)],
        };
        let request = pb::TxnRequest {
            compare: vec![pb::Compare { key: "c".into(), range_end: "d".into(), ..Default::default() }],
            success: vec![put("s", false), pb::RequestOp { request: Some(Op::RequestTxn(nested)) }],
            failure: vec![attach("f", true, 9)],
        };
        assert_eq!(leases(&request), BTreeSet::from([LeaseId(0), LeaseId(8), LeaseId(9)]));
        let said: Vec<String> =
            txn(&request).iter().map(|need| format!("{} {}", need.verb, need.target())).collect();
        let cluster = " in the whole cluster";
        let said: Vec<&str> = said.iter().filter_map(|it| it.strip_suffix(cluster)).collect();
        assert_eq!(
            said,
            [
                "list keys from c to d",
                "update keys s",
                "get keys n",
                "delete keys from e to g",
                "list keys from e to g",
                "update keys n",
                "update keys f",
                "get keys f",
            ]
        );
    }
}
