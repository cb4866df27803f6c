//! Ledgers that follow objects: a Node says what there is to reserve on it, Quotas what a namespace may have. Their ledgers
//! change in the same commit, so that no bind is ever decided by limits that the objects do not tell.

use std::collections::BTreeSet;

use bytes::Bytes;
use setpoint_api::setpoint::v1::Reason;
use setpoint_objects::write::Outcome;
use setpoint_objects::{Object, Subresource};
use setpoint_store::command::Range;
use setpoint_store::commit::Op;
use setpoint_store::{Amounts, KeyValue};
use setpoint_types::KeyRange;
use setpoint_types::kinds::QuotaSpec;

use super::commit::Change;
use super::convert;
use super::writer::{Prepared, Writer, Written};
use crate::objects::error::Refusal;
use crate::objects::key;
use crate::objects::reader::blocking;
use crate::placement::books;

const NODE: &str = "Node";
const QUOTA: &str = "Quota";

/// Of one namespace: each write of one reads all of them.
const QUOTAS_MAX: usize = 32;

impl Writer {
    /// Adds what the written objects make of their ledgers.
    pub(super) async fn follow(&self, prepared: &mut Prepared) -> Result<(), Refusal> {
        let moved = |it: &&Written| match &it.outcome {
            Outcome::Put(_) => it.part == Subresource::Main,
            Outcome::Gone(_) => true,
            Outcome::Unchanged(_) => false,
        };
        let mut spaces = BTreeSet::new();
        let mut ops = Vec::new();
        for written in prepared.written.iter().filter(moved) {
            let object = written.outcome.object();
            match object.kind.as_str() {
                NODE => ops.extend(of_node(object, matches!(written.outcome, Outcome::Gone(_)))),
                QUOTA => drop(spaces.insert(object.metadata.namespace.clone())),
                _ => {}
            }
        }
        for namespace in spaces {
            ops.extend(self.of_quotas(&namespace, prepared).await?);
        }
        prepared.decided.follows = ops;
        Ok(())
    }

    /// The limits of a namespace, from all its quotas: those that are written, and those that are not and must stay as they are.
    async fn of_quotas(&self, namespace: &str, prepared: &mut Prepared) -> Result<Vec<Op>, Refusal> {
        let range = key::of_namespace(QUOTA, namespace);
        let (read, store) = (Range::latest(range.clone()), self.reader.store.clone());
        let stored = blocking(move || store.range(&read)).await?;
        let stored = stored.map_err(|failure| self.reader.read_failure(failure))?.kvs;
        let before: Vec<QuotaSpec> = stored.iter().filter_map(stored_spec).collect();
        let of_it = |it: &&Written| {
            let object = it.outcome.object();
            object.kind == QUOTA && object.metadata.namespace == namespace
        };
        let written: Vec<_> =
            prepared.written.iter().filter(of_it).map(|it| (it.key(), &it.outcome)).collect();
        let others = stored.iter().filter(|kv| written.iter().all(|(key, _)| *key != kv.key));
        let mut after: Vec<QuotaSpec> = others.clone().filter_map(stored_spec).collect();
        after.extend(written.iter().filter_map(|(_, outcome)| match outcome {
            Outcome::Gone(_) => None,
            Outcome::Put(object) | Outcome::Unchanged(object) => spec(object),
        }));
        if after.len() > QUOTAS_MAX && after.len() > before.len() {
            let text =
                format!("the namespace {namespace} has {QUOTAS_MAX} quotas, which is the most; delete one");
            return Err(Refusal::new(Reason::QuotaExceeded, text));
        }
        prepared.held.extend(others.map(|kv| Change { key: kv.key.clone(), read_at: kv.modified, op: None }));
        prepared.decided.emptied.extend(between(&range, &stored));
        Ok(limits(namespace, &before, &after))
    }
}

fn of_node(object: &Object, gone: bool) -> Vec<Op> {
    let name = &object.metadata.name;
    let spec = serde_json::from_value(object.spec.clone()).ok().filter(|_| !gone);
    let limits = match &spec {
        Some(spec) => {
            [(books::node(name), books::node_limits(spec)), (books::ports(name), books::port_limits())]
        }
        None => [(books::node(name), Amounts::new()), (books::ports(name), Amounts::new())],
    };
    limits.into_iter().map(|(ledger, limits)| Op::Limits { ledger, limits }).collect()
}

fn limits(namespace: &str, before: &[QuotaSpec], after: &[QuotaSpec]) -> Vec<Op> {
    let (before, mut after) = (books::quota_limits(before), books::quota_limits(after));
    let zones: BTreeSet<String> = before.into_keys().chain(after.keys().cloned()).collect();
    let set = |zone: String| {
        let limits = after.remove(&zone).unwrap_or_default();
        let ledger = match zone.as_str() {
            "" => books::quota(namespace),
            zone => books::zone_quota(namespace, zone),
        };
        Op::Limits { ledger, limits }
    };
    zones.into_iter().map(set).collect()
}

/// Where no quota is: one that somebody else makes meanwhile must not be overlooked.
fn between(range: &KeyRange, stored: &[KeyValue]) -> Vec<KeyRange> {
    let mut start = Bytes::copy_from_slice(range.start());
    let mut gaps = Vec::new();
    for kv in stored {
        gaps.push(KeyRange::Span { start, end: kv.key.clone() });
        start = Bytes::copy_from_slice(key::after(range.clone(), &kv.key).start());
    }
    gaps.push(KeyRange::Span { start, end: range.end().unwrap_or_default() });
    gaps
}

fn stored_spec(kv: &KeyValue) -> Option<QuotaSpec> {
    spec(&convert::stored(kv)?)
}

fn spec(object: &Object) -> Option<QuotaSpec> {
    serde_json::from_value(object.spec.clone()).ok()
}
