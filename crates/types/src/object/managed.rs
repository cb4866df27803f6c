//! Who decides which field of an object.
//!
//! Not here: how ownership moves (the crate `objects`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// The fields one manager decides, by one way of writing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedFields {
    /// Who decides: "cli", "autoscaler".
    pub manager: String,
    /// By which way of writing.
    pub operation: WriteOperation,
    /// "status" for fields of the status, else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    /// When this entry last changed, in milliseconds since 1970.
    #[serde(rename = "timeMs")]
    pub time: Timestamp,
    /// Sorted paths: `.spec.replicas`, `.spec.ports[port=80].name`, `.spec.zones["a"]` for a member of a set.
    #[serde(default)]
    pub fields: Vec<String>,
}

/// How a manager came to own a field.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum WriteOperation {
    /// By Create, Update, UpdateStatus or Patch.
    #[default]
    Update,
    /// By Apply.
    Apply,
}
