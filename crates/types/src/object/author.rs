//! Who made a revision, and the fence a write may carry.

use serde::{Deserialize, Serialize};

use crate::{Epoch, Timestamp};

/// Who made a revision. Stored with it, returned by watches and by history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Author {
    /// Who was authenticated: "user:jane", "node:a1", or "anonymous" where access control is off.
    pub principal: String,
    /// The field manager named in the request.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub manager: String,
    /// The operation id the request carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The fence it carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
    /// A W3C trace id, if the request was part of a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// When the leader took the write.
    #[serde(rename = "timeMs")]
    pub time: Timestamp,
}

/// Holds while the named lease is held at this epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fence {
    /// Of the Lease object.
    pub namespace: String,
    /// The name of the Lease object.
    pub lease: String,
    pub epoch: Epoch,
}
