//! What every object carries beside its spec and status.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ManagedFields;
use crate::{Generation, Revision, Timestamp, Uid};

/// Name, identity, history and relations of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    /// Empty for kinds that belong to the whole cluster. "default" if a namespaced object names none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Lower-case letters, digits, '-' and '.', at most 253. Unique within its kind and namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Instead of a name: a prefix that the server completes to a free one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub generate_name: String,
    /// Tells this object from an earlier or later one of the same name.
    #[serde(skip_serializing_if = "Uid::is_empty")]
    pub uid: Uid,
    /// The revision of the last change.
    #[serde(skip_serializing_if = "is_default")]
    pub revision: Revision,
    /// Moves by one whenever the spec changes, and when deletion begins.
    #[serde(skip_serializing_if = "is_default")]
    pub generation: Generation,
    /// When it was created, in milliseconds since 1970.
    #[serde(rename = "createdMs", skip_serializing_if = "is_default")]
    pub created: Timestamp,
    /// When its deletion began. It goes once its last finalizer is gone; this cannot be undone.
    #[serde(rename = "deletedMs", skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Timestamp>,
    /// What must be done before the object may go. Each is removed by whoever has done its part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-setpoint-list-type" = "set"))]
    pub finalizers: Vec<String>,
    /// Whose parts it is: without any owner left it is collected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["uid"]))]
    pub owners: Vec<OwnerReference>,
    /// For selectors: "app", "example.com/tier".
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// For people and tools; nothing selects by them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Who last decided which field.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub managed_fields: Vec<ManagedFields>,
}

impl Metadata {
    /// Its deletion has begun.
    pub fn is_terminating(&self) -> bool {
        self.deleted.is_some()
    }

    /// The one owner that controls it.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owners.iter().find(|owner| owner.controller)
    }
}

/// An object this one is a part of. Of the same namespace, or of the whole cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// "Workload", "Namespace".
    pub kind: String,
    /// The owner's name.
    pub name: String,
    /// The owner with this uid and no other: a later object of the same name is not it.
    pub uid: Uid,
    /// At most one owner controls an object.
    #[serde(default, skip_serializing_if = "is_default")]
    pub controller: bool,
    /// With foreground deletion, the owner stays until this object is gone.
    #[serde(default, skip_serializing_if = "is_default")]
    pub block_owner_deletion: bool,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
