//! The objects that a bind and a release write, as they are stored: only what changes is made anew.

use bytes::Bytes;
use prost::Message;
use serde_json::{Map, Value};
use setpoint_api::setpoint::v1 as pb;
use setpoint_objects::managed::{Writer, take_over};
use setpoint_objects::{ManagedFields, Metadata, Operation, OwnerReference, Subresource};
use setpoint_store::commit::Op;
use setpoint_types::kinds::{BindingSpec, BindingState, BindingStatus, Reservation};
use setpoint_types::object::to_json;
use setpoint_types::quantity::Amounts;
use setpoint_types::{LeaseId, Timestamp};

use super::seen::{BindingSeen, Raw};
use crate::objects::key::ObjectName;
use crate::objects::write::convert;

/// Who is recorded to have written what is written here.
pub const MANAGER: &str = "placement";
/// On a replica and its binding: what has or may have a process does not vanish, nor what is reserved for it.
pub const FINALIZER: &str = "setpoint/binding";
const FINALIZER_PATH: &str = ".metadata.finalizers[\"setpoint/binding\"]";

pub const REPLICA: &str = "Replica";
pub const BINDING: &str = "Binding";

/// Stands for the revision until the commit has one.
pub const STAMP: u64 = u64::MAX;
const STAMP_DIGITS: usize = 20;

pub fn key(kind: &str, namespace: &str, name: &str) -> Bytes {
    ObjectName { kind, namespace, name }.key()
}

fn writer(subresource: Subresource, now: Timestamp) -> Writer<'static> {
    Writer { manager: MANAGER, operation: Operation::Update, subresource, time_ms: now.0 }
}

fn encoded(kind: &str, metadata: Metadata, spec: Bytes, status: Bytes) -> Bytes {
    let metadata = Some(convert::wire_metadata(metadata));
    pb::Object { kind: kind.to_owned(), metadata, spec, status }.encode_to_vec().into()
}

fn json(value: &Value) -> Bytes {
    // A value cannot fail to be written.
    serde_json::to_vec(value).unwrap_or_default().into()
}

fn fields(json: &Bytes) -> Map<String, Value> {
    serde_json::from_slice(json).unwrap_or_default()
}

/// What a replica is given.
pub struct Given<'a> {
    pub node: &'a str,
    pub node_uid: &'a str,
    /// Empty if none is written.
    pub decision: &'a str,
}

/// The replica with its node.
pub fn bound(replica: &Raw, given: &Given<'_>, now: Timestamp) -> Bytes {
    let mut status = fields(&replica.status);
    status.remove("blocked");
    let mut set = |name: &str, value: &str| drop(status.insert(name.to_owned(), value.into()));
    set("stage", "bound");
    set("node", given.node);
    set("nodeUid", given.node_uid);
    set("binding", &replica.metadata.name);
    let mut own = vec![".status.binding", ".status.node", ".status.nodeUid", ".status.stage"];
    if !given.decision.is_empty() {
        set("decision", given.decision);
        own.push(".status.decision");
    }
    let stages = status.entry("stages").or_insert_with(|| Value::Object(Map::new()));
    if let Some(stages) = stages.as_object_mut() {
        for (name, path) in
            [("boundMs", ".status.stages.boundMs"), ("scheduledMs", ".status.stages.scheduledMs")]
        {
            stages.insert(name.to_owned(), now.0.into());
            own.push(path);
        }
    }
    own.sort_unstable();
    let mut metadata = replica.metadata.clone();
    let managed = std::mem::take(&mut metadata.managed_fields);
    let managed = take_over(managed, &[".status.blocked"], &own, &writer(Subresource::Status, now));
    metadata.managed_fields = take_over(managed, &[], &[FINALIZER_PATH], &writer(Subresource::Main, now));
    if !metadata.finalizers.iter().any(|it| it == FINALIZER) {
        metadata.finalizers.push(FINALIZER.to_owned());
    }
    encoded(REPLICA, metadata, replica.spec.clone(), json(&Value::Object(status)))
}

/// What becomes of a replica whose binding is released: it goes, if it waited for that only. None if it has nothing of ours.
pub fn let_go(replica: &Raw, now: Timestamp) -> Option<Op> {
    let mut metadata = replica.metadata.clone();
    let had = metadata.finalizers.len();
    metadata.finalizers.retain(|it| it != FINALIZER);
    if metadata.finalizers.len() == had {
        return None;
    }
    let key = key(REPLICA, &metadata.namespace, &metadata.name);
    if metadata.finalizers.is_empty() && replica.is_deleting() {
        return Some(Op::Delete { key });
    }
    let managed = std::mem::take(&mut metadata.managed_fields);
    metadata.managed_fields = take_over(managed, &[FINALIZER_PATH], &[], &writer(Subresource::Main, now));
    let value = encoded(REPLICA, metadata, replica.spec.clone(), replica.status.clone());
    Some(Op::Put { key, value, lease: LeaseId::NONE })
}

/// A new binding, of a replica of the same name.
pub fn binding(spec: &BindingSpec, replica: &Raw, uid: &str, now: Timestamp) -> Bytes {
    let owner = OwnerReference {
        kind: REPLICA.to_owned(),
        name: replica.metadata.name.clone(),
        uid: replica.metadata.uid.clone(),
        controller: true,
        block_owner_deletion: true,
    };
    let metadata = Metadata {
        namespace: replica.metadata.namespace.clone(),
        name: replica.metadata.name.clone(),
        owners: vec![owner],
        finalizers: vec![FINALIZER.to_owned()],
        ..fresh(uid, now, &[FINALIZER_PATH, ".spec"], &[".status.sinceMs", ".status.state"])
    };
    let status = BindingStatus { state: BindingState::Bound, since: now, ..BindingStatus::default() };
    encoded(BINDING, metadata, json(&to_json(spec)), json(&to_json(&status)))
}

/// The metadata of an object that is made here. Its spec is immutable, and therefore owned as a whole.
pub fn fresh(uid: &str, now: Timestamp, main: &[&str], status: &[&str]) -> Metadata {
    let entry = |subresource, fields: &[&str]| ManagedFields {
        manager: MANAGER.to_owned(),
        operation: Operation::Update,
        subresource,
        time_ms: now.0,
        fields: fields.iter().map(|it| (*it).to_owned()).collect(),
    };
    Metadata {
        uid: uid.to_owned(),
        generation: 1,
        created_ms: now.0,
        managed_fields: vec![entry(Subresource::Main, main), entry(Subresource::Status, status)],
        ..Metadata::default()
    }
}

/// The binding once it is released: marked so, or gone if that is what it waited for.
pub fn released(binding: &BindingSeen, reason: &str, now: Timestamp) -> Op {
    let mut status = fields(&binding.raw.status);
    status.insert("state".to_owned(), "Released".into());
    status.insert("sinceMs".to_owned(), now.0.into());
    status.insert("reason".to_owned(), reason.into());
    status.insert("releasedRevision".to_owned(), STAMP.into());
    for gone in ["graceUntilMs", "message"] {
        status.remove(gone);
    }
    let own = [".status.reason", ".status.releasedRevision", ".status.sinceMs", ".status.state"];
    let gone = [".status.graceUntilMs", ".status.message"];
    let mut metadata = binding.raw.metadata.clone();
    metadata.finalizers.retain(|it| it != FINALIZER);
    let key = key(BINDING, &metadata.namespace, &metadata.name);
    if metadata.finalizers.is_empty() && binding.raw.is_deleting() {
        return Op::Delete { key };
    }
    let managed = std::mem::take(&mut metadata.managed_fields);
    let managed = take_over(managed, &gone, &own, &writer(Subresource::Status, now));
    metadata.managed_fields = take_over(managed, &[FINALIZER_PATH], &[], &writer(Subresource::Main, now));
    stamped(key, encoded(BINDING, metadata, binding.raw.spec.clone(), json(&Value::Object(status))))
}

/// A put of a value in which [`STAMP`] stands for the revision.
pub fn stamped(key: Bytes, value: Bytes) -> Op {
    // As the end of a field's name and its number. Texts cannot look like it: their quotes are escaped.
    let sign = format!("evision\":{STAMP}");
    let found = value.windows(sign.len()).rposition(|it| it == sign.as_bytes());
    // Without it, nothing is stamped.
    let at = found.map_or(value.len(), |at| at + sign.len() - STAMP_DIGITS);
    Op::Stamped { key, value, at: at as u64 }
}

/// What a binding says that it has reserved.
pub fn reservation(op: &Op) -> Option<Reservation> {
    let of = |ledger: &str, amounts: Amounts| Some(Reservation { ledger: ledger.to_owned(), amounts });
    let told = |amounts: &setpoint_store::Amounts| {
        amounts
            .iter()
            .map(|(name, amount)| (name.clone(), i64::try_from(*amount).unwrap_or(i64::MAX)))
            .collect()
    };
    match op {
        Op::Reserve { ledger, amounts, .. } | Op::Count { ledger, amounts, .. } => of(ledger, told(amounts)),
        Op::Spread { ledger, domain, .. } => of(ledger, [(domain.clone(), 1)].into_iter().collect()),
        _ => None,
    }
}
