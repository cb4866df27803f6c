//! An object as these functions see it: the metadata by name, spec and status as JSON.
//!
//! It mirrors `setpoint.v1.Object`. Not here: its encoding (`setpoint-api`), and what spec and status mean (`setpoint-types`).

use std::collections::BTreeMap;

use serde_json::Value;

/// One object. An absent status is `Null`; a spec is never `Null` once it is stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    pub kind: String,
    pub metadata: Metadata,
    pub spec: Value,
    pub status: Value,
}

/// What every object has, whatever its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Empty for kinds of the whole cluster.
    pub namespace: String,
    pub name: String,
    pub generate_name: String,
    pub uid: String,
    /// Of the last change; 0 in a request means no condition.
    pub revision: u64,
    pub generation: u64,
    pub created_ms: u64,
    /// When its deletion began.
    pub deleted_ms: Option<u64>,
    pub finalizers: Vec<String>,
    pub owners: Vec<OwnerReference>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub managed_fields: Vec<ManagedFields>,
}

/// Whose part an object is. The owner is in the same namespace, or of a kind of the whole cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerReference {
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub controller: bool,
    pub block_owner_deletion: bool,
}

/// The fields one manager decides by one way of writing, in the notation of [`crate::fields`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedFields {
    pub manager: String,
    pub operation: Operation,
    pub subresource: Subresource,
    /// When this manager last changed something by this way of writing.
    pub time_ms: u64,
    /// One path each, in the order of their bytes.
    pub fields: Vec<String>,
}

/// How a field was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Create, Update, UpdateStatus or Patch.
    Update,
    Apply,
}

/// The part of an object that one write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subresource {
    /// Everything but the status.
    Main,
    Status,
}

impl Subresource {
    /// As it stands in managed fields on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
        }
    }
}
