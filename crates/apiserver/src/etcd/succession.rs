//! Keys that stand in line under a prefix: the oldest one owns what the prefix names.
//!
//! Locks and elections are both this. Each candidate creates a key of its own, named after its lease, and waits until
//! every key created before it is gone. Whoever loses the lease loses the place. The order is that of revisions, so all
//! nodes see the same line.
//!
//! Not here: what owning means (`lock`, `election`).

use std::convert::Infallible;

use bytes::Bytes;
use setpoint_api::mvccpb;
use setpoint_store::command::{
    Bounds, Command, Compare, DeleteRange, Operand, Operator, Order, Put, Range, SortTarget, Txn, TxnOp,
};
use setpoint_store::{KeyValue, RangeResult, Response as Verdict, TxnResult};
use setpoint_types::{KeyRange, LeaseId, Revision};
use tokio::sync::{mpsc, oneshot};
use tonic::Status;

use super::context::{Context, mismatched};
use super::convert;
use super::error::EtcdError;
use crate::watch::{self, Event, Filters, Output, StreamEnd, StreamOptions, WatchSpec, WatchStream};

/// The lifetime of a lease that a candidate does not bring itself, in seconds: etcd's.
const SESSION_TTL: i64 = 60;
/// Events that may wait for whoever follows a key.
const EVENT_QUEUE: usize = 4;

/// A place in the line.
#[derive(Clone, Debug)]
pub struct Place {
    pub key: Bytes,
    /// The revision that created the key.
    pub created: Revision,
    /// The store's revision when the place was taken.
    pub seen: Revision,
    /// The value the key had already, if the place was taken before.
    pub earlier: Option<Bytes>,
}

/// The keys in line for a name.
pub fn line(name: &[u8]) -> KeyRange {
    let mut start = name.to_vec();
    start.push(b'/');
    let mut end = name.to_vec();
    end.push(b'/' + 1);
    KeyRange::Span { start: start.into(), end: end.into() }
}

/// The lease a candidate brings, or a fresh one.
pub async fn session(context: &Context, lease: i64) -> Result<LeaseId, Status> {
    if lease != 0 {
        return Ok(LeaseId(lease));
    }
    let (lease, ttl) = (context.fresh_lease(), context.lessor.granted(SESSION_TTL));
    match context.propose(Command::LeaseGrant { lease, ttl }).await? {
        Verdict::LeaseGrant { lease, .. } => Ok(lease),
        other => Err(mismatched(&other)),
    }
}

/// Takes a place in the line, or finds the one that the lease has already.
pub async fn enter(context: &Context, name: &[u8], lease: LeaseId, value: Bytes) -> Result<Place, Status> {
    let mut key = name.to_vec();
    key.push(b'/');
    key.extend_from_slice(in_hex(lease).as_bytes());
    let key = Bytes::from(key);
    context.admit(key.len() + value.len(), true).await?;
    let put = Put { key: key.clone(), value, lease, ..Put::default() };
    let found = Range::latest(KeyRange::Single(key.clone()));
    let result = guarded(context, &key, Revision::NONE, TxnOp::Put(put), vec![TxnOp::Range(found)]).await?;
    let seen = result.revision;
    let mut place = Place { key, created: seen, seen, earlier: None };
    if !result.succeeded {
        let Some(Verdict::Range(RangeResult { mut kvs, .. })) = result.responses.into_iter().next() else {
            return Err(EtcdError::Timeout.into());
        };
        let existing = kvs.pop().ok_or(EtcdError::KeyNotFound)?;
        place = Place { created: existing.created, earlier: Some(existing.value), ..place };
    }
    Ok(place)
}

/// Does `then` if the key is there since that revision (`NONE`: if it is not there), otherwise `other`.
pub async fn guarded(
    context: &Context,
    key: &Bytes,
    created: Revision,
    then: TxnOp,
    other: Vec<TxnOp>,
) -> Result<TxnResult, Status> {
    let compare = Compare {
        range: KeyRange::Single(key.clone()),
        operator: Operator::Equal,
        operand: Operand::Created(created.wire()),
    };
    let txn = Txn { compares: vec![compare], success: vec![then], failure: other };
    match context.propose(Command::Txn(txn)).await? {
        Verdict::Txn(result) => Ok(result),
        other => Err(mismatched(&other)),
    }
}

/// Leaves the line, or gives up what the place owned. Returns the revision afterwards.
pub async fn leave(context: &Context, key: Bytes) -> Result<Revision, Status> {
    let delete = DeleteRange { range: KeyRange::Single(key), want_previous: false };
    match context.propose(Command::DeleteRange(delete)).await? {
        Verdict::DeleteRange { revision, .. } => Ok(revision),
        other => Err(mismatched(&other)),
    }
}

/// Waits until nobody in the line is older. Our own copy has every older key, because it has ours.
async fn turn(context: &Context, line: &KeyRange, created: Revision) -> Result<(), Status> {
    loop {
        let mut before = Range::latest(line.clone());
        before.bounds = Bounds { created_max: created.predecessor().wire(), ..Bounds::default() };
        (before.by, before.order, before.limit) = (SortTarget::Created, Order::Descending, 1);
        let found = read(context, before)?;
        let Some(predecessor) = found.kvs.into_iter().next() else { return Ok(()) };
        let filters = Filters { no_puts: true, no_deletes: false };
        let range = KeyRange::Single(predecessor.key);
        let mut deletions = follow(context, range, found.revision.successor(), filters);
        // A compaction that overtook the watch is no reason to give up: the line is looked at again.
        next_events(context, &mut deletions).await?;
    }
}

/// Takes a place and waits for its turn. The place is left if the caller goes away meanwhile.
pub async fn own(context: &Context, name: Bytes, place: Place) -> Result<(), Status> {
    let (mut done, turned) = oneshot::channel();
    let context = context.clone();
    tokio::spawn(async move {
        let line = line(&name);
        let outcome = tokio::select! {
            outcome = turn(&context, &line, place.created) => outcome,
            () = done.closed() => Err(Status::cancelled("the caller left")),
        };
        let failed = outcome.is_err();
        if (done.send(outcome).is_err() || failed)
            && let Err(error) = leave(&context, place.key).await
        {
            tracing::debug!(%error, "a place in line was not left; it ends with its lease");
        }
    });
    turned.await.unwrap_or_else(|_| Err(EtcdError::Stopped.into()))
}

/// The key that is first in line, and the store's revision.
pub fn first(context: &Context, name: &[u8]) -> Result<(Option<KeyValue>, Revision), Status> {
    let mut oldest = Range::latest(line(name));
    (oldest.by, oldest.order, oldest.limit) = (SortTarget::Created, Order::Ascending, 1);
    let found = read(context, oldest)?;
    Ok((found.kvs.into_iter().next(), found.revision))
}

pub fn read(context: &Context, range: Range) -> Result<RangeResult, Status> {
    context.replica.store.range(&range).map_err(|failure| context.read_failure(failure))
}

/// Watches a range from a revision on, for as long as the receiver is kept.
pub fn follow(
    context: &Context,
    range: KeyRange,
    from: Revision,
    filters: Filters,
) -> mpsc::Receiver<Output> {
    let (output, events) = mpsc::channel(EVENT_QUEUE);
    let options = StreamOptions {
        progress_interval: context.limits.watch_progress_interval,
        response_bytes: context.limits.request_bytes,
        watches_max: 1,
    };
    let (hub, store) = (context.replica.hub.clone(), context.replica.store.clone());
    let stream = WatchStream::new(hub, store, options, output.clone());
    let start = Some(from);
    let spec = WatchSpec { range, start, filters, previous: false, progress: false, fragment: false };
    let create = Ok::<_, Infallible>(watch::Command::Create { id: None, spec });
    tokio::spawn(async move {
        let end = stream.run(futures::stream::iter([create])).await;
        let _ = output.send(Output::Ended(end)).await;
    });
    events
}

/// The next events, or none if a compaction overtook the watch.
pub async fn next_events(
    context: &Context,
    events: &mut mpsc::Receiver<Output>,
) -> Result<Vec<Event>, Status> {
    loop {
        match events.recv().await {
            Some(Output::Events { events, .. }) => return Ok(events),
            Some(Output::Compacted { .. }) => return Ok(Vec::new()),
            Some(Output::Ended(StreamEnd::Storage(failure))) => return Err(context.storage_failure(&failure)),
            Some(Output::Ended(_)) | None => return Err(EtcdError::Stopped.into()),
            Some(_) => {}
        }
    }
}

pub fn wire(kv: KeyValue) -> mvccpb::KeyValue {
    convert::key_value(kv)
}

/// As etcd names keys after leases: with a sign, if need be.
fn in_hex(lease: LeaseId) -> String {
    let sign = if lease.0 < 0 { "-" } else { "" };
    format!("{sign}{:x}", lease.0.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_the_keys_below_its_name_and_no_others() {
        let line = line(b"door");
        assert!(line.contains(b"door/1f") && line.contains(b"door/-3"));
        assert!(!line.contains(b"door") && !line.contains(b"doors/1f") && !line.contains(b"door0"));
    }

    #[test]
    fn leases_are_named_as_etcd_names_them() {
        assert_eq!(in_hex(LeaseId(0x1f)), "1f");
        assert_eq!(in_hex(LeaseId(-0x1f)), "-1f");
        assert_eq!(in_hex(LeaseId(i64::MIN)), "-8000000000000000");
    }
}
