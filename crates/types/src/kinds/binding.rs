//! Binding: a replica has a node, and what it needs is reserved there.
//!
//! A binding outlives what is known about its node: it goes through Unknown and ReleaseRequested to Released, and only what is
//! released can be given to another.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kind::{Column, KindInfo, KindType};
use crate::object::{Condition, Evidence, read};
use crate::quantity::Amounts;
use crate::{Epoch, Generation, Problems, Revision, Timestamp, Uid};

/// The kind.
pub enum Binding {}

/// Which replica has which node, and why. Committed together with its reservations; nothing of it changes later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingSpec {
    /// The replica, of the same namespace.
    #[schemars(extend("format" = "dns-subdomain", "x-setpoint-immutable" = true))]
    pub replica: String,
    /// Tells that replica from a later one of its name.
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub replica_uid: Uid,
    /// The node.
    #[schemars(extend("format" = "dns-subdomain", "x-setpoint-immutable" = true))]
    pub node: String,
    /// Tells that node from a later one of its name.
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub node_uid: Uid,
    /// The revision of the node that the scheduler saw.
    #[serde(default)]
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub node_revision: Revision,
    /// The epoch of the node's lease at the time: an agent refuses what was decided for an earlier one.
    #[serde(default)]
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub node_epoch: Epoch,
    /// The start of the host that was seen: what it ran is gone once it starts anew.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub boot_id: String,
    /// The zone the node is in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub zone: String,
    /// What is reserved in which ledger. Given back when the binding is released.
    #[serde(default)]
    #[schemars(extend(
        "x-setpoint-list-type" = "map",
        "x-setpoint-list-map-keys" = ["ledger"],
        "x-setpoint-immutable" = true
    ))]
    pub reservations: Vec<Reservation>,
    /// The placement policy and its version that were in force.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub policy_version: String,
    /// The epoch of the scheduler's lease.
    #[serde(default)]
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub scheduler_epoch: Epoch,
    /// The name of the Decision that led to it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub decision: String,
    /// The operation id of the bind: sent again, it is recognised by it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub operation: String,
}

/// What a binding has reserved in one ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// The ledger: of a node or its ports, of a namespace, there or in a zone, or of a workload's spread.
    pub ledger: String,
    /// How much.
    pub amounts: Amounts,
}

/// Whether the replica still has the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct BindingStatus {
    /// The generation this status is about.
    pub observed_generation: Generation,
    /// Whether the replica still has the node.
    pub state: BindingState,
    /// Since when it is so, in milliseconds since 1970.
    #[serde(rename = "sinceMs")]
    pub since: Timestamp,
    /// Why, in one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What was seen that led to it.
    pub evidence: Vec<Evidence>,
    /// While it is unknown: when its release will be asked for, in milliseconds since 1970.
    #[serde(rename = "graceUntilMs")]
    pub grace_until: Option<Timestamp>,
    /// The agent has seen it and makes the replica run.
    pub accepted: bool,
    /// When the agent confirmed that nothing of the replica runs any more, in milliseconds since 1970.
    #[serde(rename = "stoppedMs")]
    pub stopped: Option<Timestamp>,
    /// The revision at which the reservations were given back.
    pub released_revision: Revision,
    /// The replica that makes its loss good.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replacement: String,
    /// What is true of it now.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Whether a replica has its node.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum BindingState {
    /// It has it.
    #[default]
    Bound,
    /// The node is out of reach: it may have it or not.
    Unknown,
    /// It is to give it back.
    ReleaseRequested,
    /// It has it no more, and nothing is reserved. Never changes again.
    Released,
}

impl BindingState {
    /// Whether a binding may go from here to there. A node that comes back makes an unknown binding bound again; a release
    /// that was asked for is not taken back, because a replacement may already count on it.
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Bound => true,
            Self::Unknown => true,
            Self::ReleaseRequested => matches!(next, Self::ReleaseRequested | Self::Released),
            Self::Released => next == Self::Released,
        }
    }
}

impl KindType for Binding {
    const INFO: KindInfo = KindInfo {
        name: "Binding",
        plural: "bindings",
        singular: "binding",
        short_names: &["bd"],
        namespaced: true,
        columns: &[
            Column::text("Replica", ".spec.replica"),
            Column::text("Node", ".spec.node"),
            Column::text("State", ".status.state"),
            Column::text("Reason", ".status.reason"),
            Column::AGE,
        ],
        selectable_fields: &["spec.node", "spec.replica", "status.state"],
    };
    type Spec = BindingSpec;
    type Status = BindingStatus;

    fn check_spec(spec: &BindingSpec, problems: &mut Problems) {
        if spec.replica_uid.is_empty() {
            problems.report_at("replicaUid", "must not be empty");
        }
        if spec.node_uid.is_empty() {
            problems.report_at("nodeUid", "must not be empty");
        }
    }

    fn check_status_change(old: &Value, new: &BindingStatus, problems: &mut Problems) {
        let Ok(old) = read::<BindingStatus>(".status", old) else { return };
        if !old.state.may_become(new.state) {
            problems.report_at("state", format!("cannot go from {:?} to {:?}", old.state, new.state));
        }
    }
}
