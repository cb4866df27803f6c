//! Lease: who may act now.
//!
//! Its holder is written by the service Coordination only, together with the epoch that fences the holders before it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::{Column, KindInfo, KindType};
use crate::object::Condition;
use crate::{Epoch, Revision, Timestamp};

/// The kind.
pub enum Lease {}

/// Something that one holder at a time may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct LeaseSpec {
    /// How long it is held without a keep-alive, for holders that do not say.
    #[schemars(range(min = 1, max = 3600))]
    pub ttl_seconds: u32,
    /// Who should have it if several want it.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub preferred_holder: String,
}

impl Default for LeaseSpec {
    fn default() -> Self {
        Self { ttl_seconds: 15, preferred_holder: String::new() }
    }
}

/// Who has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct LeaseStatus {
    /// Who has it. Empty: nobody.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub holder: String,
    /// Of the holder, or of the last one: no other holder has the same.
    pub epoch: Epoch,
    /// How long it is held without a keep-alive, as the holder asked for.
    pub ttl_seconds: u32,
    /// Since when, in milliseconds since 1970.
    #[serde(rename = "acquiredMs")]
    pub acquired: Timestamp,
    /// When it was given back or ran out, in milliseconds since 1970. Left out while it is held.
    #[serde(rename = "releasedMs")]
    pub released: Option<Timestamp>,
    /// How often it went from one holder to another.
    pub transitions: u64,
    /// Up to which revision the holder had seen each kind when it took or lost the lease. The present state is answered by
    /// Coordination.Holders, because keep-alives are not written.
    pub observed: BTreeMap<String, Revision>,
    /// Who waits for it, first in line first.
    pub queue: Vec<LeaseWaiter>,
    /// What is true of it now.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Somebody who waits for a lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct LeaseWaiter {
    /// Who waits.
    pub holder: String,
    /// When the place is lost, in milliseconds since 1970: whoever waits on a node that died leaves no other trace.
    #[serde(rename = "deadlineMs")]
    pub deadline: Timestamp,
    /// Who goes first, if that one waits too.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prefers: String,
}

impl KindType for Lease {
    const INFO: KindInfo = KindInfo {
        name: "Lease",
        plural: "leases",
        singular: "lease",
        short_names: &["le"],
        namespaced: true,
        columns: &[
            Column::text("Holder", ".status.holder"),
            Column::integer("Epoch", ".status.epoch"),
            Column::integer("TTL", ".status.ttlSeconds"),
            Column::time("Held", ".status.acquiredMs"),
            Column::AGE,
        ],
        selectable_fields: &["status.holder"],
    };
    type Spec = LeaseSpec;
    type Status = LeaseStatus;
}
