//! The Lease object: made when somebody first wants the lease, and its status rewritten with every change.

use std::sync::OnceLock;

use serde_json::Value;
use setpoint_api::setpoint::v1::Reason;
use setpoint_objects::unknown::FieldValidation;
use setpoint_objects::write::{self, Context, Draft, Fresh, Written};
use setpoint_objects::{Metadata, Object, OwnerReference};
use setpoint_store::{Hold, LeaseName};
use setpoint_types::kinds::{LeaseSpec, LeaseStatus, LeaseWaiter};
use setpoint_types::object::to_json;
use setpoint_types::{Epoch, Revision, Timestamp, registry};

use super::LEASE;
use crate::lease::Observed;
use crate::objects::write::convert::refused;
use crate::objects::{Kind, Refusal};

/// Who is recorded to have written what is written here.
pub const MANAGER: &str = "coordination";

/// The kind, as its rules need it.
pub fn kind() -> &'static Kind {
    static KIND: OnceLock<Kind> = OnceLock::new();
    KIND.get_or_init(|| Kind::built_in(registry::kind(LEASE).expect("Lease is one of the built-in kinds")))
}

/// What the object says; of one that is no Lease, what a new one would say.
pub fn spec(object: Option<&Object>) -> LeaseSpec {
    object.and_then(|object| serde_json::from_value(object.spec.clone()).ok()).unwrap_or_default()
}

pub fn status(object: Option<&Object>) -> LeaseStatus {
    object.and_then(|object| serde_json::from_value(object.status.clone()).ok()).unwrap_or_default()
}

/// An object for a lease that has none, before anybody was asked about it.
pub fn draft(
    lease: &LeaseName,
    spec: &LeaseSpec,
    uid: &str,
    now: Timestamp,
) -> Result<Draft<'static>, Refusal> {
    let metadata =
        Metadata { namespace: lease.namespace.clone(), name: lease.name.clone(), ..Metadata::default() };
    let object = Object { kind: LEASE.to_owned(), metadata, spec: to_json(spec), status: Value::Null };
    let fresh = Fresh { uid, suffix: "" };
    write::create(&kind().for_rules(), None, object.into(), fresh, &context(now)).map_err(refused)
}

/// The object with another status.
pub fn with_status(before: &Object, status: &LeaseStatus, now: Timestamp) -> Result<Object, Refusal> {
    let wanted = Object { status: to_json(status), ..before.clone() };
    let written = write::update_status(&kind().for_rules(), Some(before), wanted.into(), &context(now));
    finished(written.and_then(|draft| draft.finish()))
}

fn finished(written: Result<Written, setpoint_objects::Refusal>) -> Result<Object, Refusal> {
    Ok(written.map_err(refused)?.outcome.object().clone())
}

fn context(now: Timestamp) -> Context<'static> {
    let owners = &|_: &OwnerReference| None;
    Context { manager: MANAGER, time_ms: now.0, validation: FieldValidation::Ignore, owners }
}

/// The status once somebody has the lease.
pub fn taken(before: LeaseStatus, hold: &Hold, queue: Vec<LeaseWaiter>, now: Timestamp) -> LeaseStatus {
    let transitions = before.transitions + u64::from(before.epoch.0 > 0);
    LeaseStatus {
        holder: hold.holder.clone(),
        epoch: Epoch(hold.epoch.0),
        ttl_seconds: u32::try_from(hold.ttl).unwrap_or(u32::MAX),
        acquired: now,
        released: None,
        transitions,
        observed: Default::default(),
        queue,
        conditions: before.conditions,
    }
}

/// The status once nobody has it any more. Of what the holder had seen, what is known replaces what was known before.
pub fn ended(before: LeaseStatus, hold: &Hold, observed: Observed, now: Timestamp) -> LeaseStatus {
    let observed: std::collections::BTreeMap<_, _> =
        observed.into_iter().map(|(kind, revision)| (kind, Revision::new(revision))).collect();
    LeaseStatus {
        holder: String::new(),
        epoch: Epoch(hold.epoch.0),
        released: Some(now),
        observed: if observed.is_empty() { before.observed } else { observed },
        ..before
    }
}

/// A lease whose object is on its way out is not given to anybody.
pub fn deleting(lease: &LeaseName) -> Refusal {
    let text =
        format!("the lease {} is being deleted; take another name, or wait until it is gone", lease.name);
    Refusal::new(Reason::Conflict, text)
}

pub fn damaged() -> Refusal {
    let text = "what is stored under the lease's key is no object; restore a backup";
    Refusal::new(Reason::Internal, text)
}
