//! The Decision of a bind: why the replica has this node, as the scheduler says, with what only the server knows.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::bind_rejection::Reason;
use setpoint_objects::{Metadata, Object};
use setpoint_store::commit::Op;
use setpoint_types::kinds::{DecisionSpec, DecisionStatus, Outcome, Verdict};
use setpoint_types::object::{ObjectReference, to_json};
use setpoint_types::{Epoch, Generation, Revision, Timestamp, Uid, registry};

use super::rejection::Rejected;
use super::write::{STAMP, fresh, key, stamped};
use crate::objects::Kind;
use crate::objects::write::admit::admit_own;
use crate::objects::write::convert;

const DECISION: &str = "Decision";
const BYTES_MAX: usize = 16 << 10;
/// Of the replica's name in that of its decision.
const PREFIX_BYTES_MAX: usize = 200;

/// What the server adds to what the scheduler says.
pub struct Known<'a> {
    pub operation: &'a str,
    pub policy_version: &'a str,
    pub observed: &'a BTreeMap<String, u64>,
    pub epoch: u64,
    pub trace: &'a str,
    pub now: Timestamp,
    pub random: u128,
}

/// A decision that is ready to be stored.
pub struct Record {
    pub name: String,
    pub op: Op,
}

fn kind() -> &'static Kind {
    static KIND: OnceLock<Kind> = OnceLock::new();
    KIND.get_or_init(|| {
        Kind::built_in(registry::kind(DECISION).expect("Decision is one of the built-in kinds"))
    })
}

/// None if the bind carries none.
pub fn record(bind: &pb::Bind, known: &Known<'_>) -> Result<Option<Record>, Rejected> {
    if bind.decision.is_empty() {
        return Ok(None);
    }
    let invalid = |problem: String| {
        let text = format!("the decision of the bind {problem}; correct it, or leave it out");
        Rejected::new(Reason::Invalid, text)
    };
    if bind.decision.len() > BYTES_MAX {
        return Err(invalid(format!("has more than {BYTES_MAX} bytes")));
    }
    let said = serde_json::from_slice(&bind.decision)
        .map_err(|error| invalid(format!("cannot be read: {error}")))?;
    let spec = completed(said, bind, known);
    let status = DecisionStatus {
        count: 1,
        first: spec.time,
        last: spec.time,
        cache_revisions: spec.cache_revisions.clone(),
        dropped: 0,
    };
    let begin = &bind.replica[..bind.replica.floor_char_boundary(PREFIX_BYTES_MAX)];
    let name = format!("{}.{:016x}", begin.trim_end_matches(['-', '.']), known.random as u64);
    let metadata = Metadata {
        namespace: bind.namespace.clone(),
        name: name.clone(),
        ..fresh(Uid::from_random(known.random).as_str(), known.now, &[".spec"], &[".status"])
    };
    let (spec, status) = (to_json(&spec), to_json(&status));
    let mut object = Object { kind: DECISION.to_owned(), metadata, spec, status };
    admit_own(kind(), &object)
        .map_err(|refusal| invalid(format!("is not valid: {}", refusal.error().message)))?;
    object.spec["verdict"]["revision"] = Value::from(STAMP);
    let value = convert::encoded(&mut object);
    Ok(Some(Record { op: stamped(key(DECISION, &bind.namespace, &name), value), name }))
}

fn completed(said: DecisionSpec, bind: &pb::Bind, known: &Known<'_>) -> DecisionSpec {
    let or = |text: String, other: &str| if text.is_empty() { other.to_owned() } else { text };
    DecisionSpec {
        object: ObjectReference {
            kind: "Replica".to_owned(),
            namespace: bind.namespace.clone(),
            name: bind.replica.clone(),
            uid: Uid::new(bind.replica_uid.as_str()),
        },
        generation: Generation(bind.replica_generation),
        action: or(said.action, "Place"),
        component: or(said.component, "scheduler"),
        epoch: Epoch(known.epoch),
        cache_revisions: known.observed.iter().map(|(kind, at)| (kind.clone(), Revision::new(*at))).collect(),
        policy_version: known.policy_version.to_owned(),
        verdict: Verdict {
            outcome: Outcome::Accepted,
            reason: None,
            node: bind.node.clone(),
            revision: Revision::NONE,
            catch_up_to: Revision::NONE,
            message: said.verdict.message,
        },
        operation: known.operation.to_owned(),
        trace: or(said.trace, known.trace),
        time: known.now,
        ..said
    }
}
