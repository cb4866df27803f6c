//! A write under review, and what comes of it.

use serde_json::{Value, json};
use setpoint_types::kinds::AdmissionOperation;

/// Who asks for what. Expressions see it as `request`.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    pub operation: AdmissionOperation,
    /// Writes the status, and nothing else.
    pub status: bool,
    pub user: &'a str,
    pub groups: &'a [String],
    pub kind: &'a str,
    /// Empty for objects of the whole cluster.
    pub namespace: &'a str,
    pub name: &'a str,
    pub dry_run: bool,
}

impl Request<'_> {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "operation": self.operation,
            "status": self.status,
            "user": self.user,
            "groups": self.groups,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "dryRun": self.dry_run,
        })
    }
}

/// A write. Expressions see each object under its name, and null where there is none.
#[derive(Clone, Debug)]
pub struct Review<'a> {
    pub request: Request<'a>,
    /// `object`: as it would be written; none for a deletion.
    pub object: Option<&'a Value>,
    /// `oldObject`: as it is; none for a creation.
    pub old_object: Option<&'a Value>,
    /// `namespaceObject`: the Namespace it is in.
    pub namespace_object: Option<&'a Value>,
}

/// Why a write is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    pub policy: String,
    pub message: String,
    /// `.spec.replicas`, if the policy blames a field.
    pub path: Option<String>,
}

/// What a policy has to say without refusing anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub policy: String,
    pub message: String,
}

/// What all policies say together. The write may go on if there are no denials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub denials: Vec<Denial>,
    /// For the client.
    pub warnings: Vec<Note>,
    /// For the audit log.
    pub audit: Vec<Note>,
}

/// What policies made of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mutated {
    /// The object as it is now, if any policy changed it.
    pub object: Option<Value>,
    /// Which policies changed it.
    pub by: Vec<String>,
    pub verdict: Verdict,
}
