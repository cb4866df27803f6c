//! The decisions of one write: from the stored object and a request to the object to be stored, or to a refusal.
//!
//! ```text
//! create, update, update_status, patch, apply  ──▶ Draft ──(policies: Draft::mutate, validate)──▶ Draft::finish ──▶ Outcome
//! delete ─────────────────────────────────────────────────────────────────────────────────────────────────────────▶ Outcome
//! ```
//!
//! Guarantees: a refusal changed nothing; the same arguments give the same result; a write that changes nothing comes out as
//! [`Outcome::Unchanged`]; generation moves only when the spec changes and when deletion begins; a write of the main part
//! leaves the status alone, and one of the status everything else. Assumptions: `stored` is the object of that key at the revision
//! the caller will guard its commit with; JSON came through [`crate::decode`], which bounds its depth.
//!
//! Not here: whether values are valid and who may write; the size of requests and objects; the revision, which the store gives.

mod apply;
mod create;
mod delete;
mod draft;
mod key;
mod patch;
mod update;

use serde_json::Value;

pub use apply::{ApplyHow, apply};
pub use create::{Fresh, create};
pub use delete::{Delete, delete};
pub use draft::{Draft, Outcome, Written};
pub use key::settle_key;
pub use patch::{Patch, patch};
pub use update::{update, update_status};

use crate::decode::decode;
use crate::object::{Metadata, Object};
use crate::owners::OwnerLookup;
use crate::refusal::{FieldProblem, Reason, Refusal};
use crate::topology::Topology;
use crate::unknown::FieldValidation;

/// What has to be known about a kind.
#[derive(Clone, Copy, Debug)]
pub struct Kind<'a> {
    pub name: &'a str,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    pub topology: &'a Topology,
}

/// What every write carries.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The field manager; [`UNNAMED_MANAGER`] if empty, except for Apply, which needs one.
    pub manager: &'a str,
    /// Now, from the caller's clock.
    pub time_ms: u64,
    pub validation: FieldValidation,
    pub owners: OwnerLookup<'a>,
}

/// Who is recorded where a write named no manager.
pub const UNNAMED_MANAGER: &str = "unnamed";

/// Of a manager's name.
pub const MANAGER_BYTES_MAX: usize = 128;

impl<'a> Context<'a> {
    fn manager(&self) -> Result<&'a str, Refusal> {
        let printable = !self.manager.chars().any(char::is_control);
        if self.manager.len() > MANAGER_BYTES_MAX || !printable {
            let message = format!("must have at most {MANAGER_BYTES_MAX} bytes and no control characters");
            return Err(Refusal::field("options.manager", message));
        }
        Ok(if self.manager.is_empty() { UNNAMED_MANAGER } else { self.manager })
    }
}

/// An object as it came, with what its decoding found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Incoming {
    pub object: Object,
    /// Fields that were there more than once.
    pub repeated: Vec<FieldProblem>,
}

impl Incoming {
    /// From what is on the wire: spec and status are JSON, or nothing.
    pub fn decode(kind: &str, metadata: Metadata, spec: &[u8], status: &[u8]) -> Result<Self, Refusal> {
        match (decode(spec, ".spec"), decode(status, ".status")) {
            (Ok(spec), Ok(status)) => {
                let object =
                    Object { kind: kind.to_owned(), metadata, spec: spec.value, status: status.value };
                Ok(Self { object, repeated: [spec.repeated, status.repeated].concat() })
            }
            (spec, status) => Err(Refusal::invalid(spec.err().into_iter().chain(status.err()).collect())),
        }
    }
}

impl From<Object> for Incoming {
    fn from(object: Object) -> Self {
        Self { object, repeated: Vec::new() }
    }
}

/// "Workload default/web", "Node a1".
fn described(kind: &str, metadata: &Metadata) -> String {
    if metadata.namespace.is_empty() {
        format!("{kind} {}", metadata.name)
    } else {
        format!("{kind} {}/{}", metadata.namespace, metadata.name)
    }
}

fn not_found(kind: &Kind<'_>, metadata: &Metadata) -> Refusal {
    let mut key = metadata.clone();
    if let Err(refusal) = settle_key(kind, &mut key, "") {
        return refusal;
    }
    let object = described(kind.name, &key);
    let message = format!("There is no {object}. Look for its name with List, or create it first.");
    Refusal::new(Reason::NotFound, message)
}

/// The conditions a request may name: empty and 0 are none.
fn check_conditions(stored: &Object, uid: &str, revision: u64) -> Result<(), Refusal> {
    let at = stored.metadata.revision;
    if !uid.is_empty() && uid != stored.metadata.uid {
        let object = described(&stored.kind, &stored.metadata);
        let found = &stored.metadata.uid;
        let message = format!(
            "{object} has the uid {found}, not {uid}: it was deleted and created anew. Read it and decide again."
        );
        return Err(Refusal {
            problems: vec![FieldProblem::new(".metadata.uid", format!("is {found}"))],
            ..Refusal::new(Reason::Conflict, message)
        }
        .at_revision(at));
    }
    if revision != 0 && revision != at {
        let object = described(&stored.kind, &stored.metadata);
        let message = format!(
            "{object} is at revision {at}, not {revision}: somebody changed it. Read it and make your change again."
        );
        return Err(Refusal {
            problems: vec![FieldProblem::new(".metadata.revision", format!("is {at}"))],
            ..Refusal::new(Reason::Conflict, message)
        }
        .at_revision(at));
    }
    Ok(())
}

/// Conditions on an object that does not exist cannot hold.
fn check_no_conditions(kind: &Kind<'_>, metadata: &Metadata) -> Result<(), Refusal> {
    if metadata.uid.is_empty() && metadata.revision == 0 {
        return Ok(());
    }
    let object = described(kind.name, metadata);
    let message = format!(
        "{object} does not exist, so it has neither the uid nor the revision you named. Leave both out to create it."
    );
    Err(Refusal::new(Reason::Conflict, message))
}

/// Spec and status as they are stored: a spec is never absent, and an empty status always is.
fn settle_sections(object: &mut Object) {
    if object.spec.is_null() {
        object.spec = Value::Object(serde_json::Map::new());
    }
    if object.status.as_object().is_some_and(serde_json::Map::is_empty) {
        object.status = Value::Null;
    }
}
