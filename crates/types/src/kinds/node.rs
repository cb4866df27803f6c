//! Node: a host that runs replicas.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::{Column, KindInfo, KindType};
use crate::object::Condition;
use crate::quantity::Amounts;
use crate::{Epoch, Generation, Problems, Timestamp};

/// The kind.
pub enum Node {}

/// A host: where it is, what it has, whom it takes. Registered by its agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSpec {
    /// What fails together: a rack, a room, a region. Cannot be changed: replicas were spread by it.
    #[schemars(extend("format" = "dns-label", "x-setpoint-immutable" = true))]
    pub zone: String,
    /// What it has for replicas: `cpu`, `memory`, `storage`, and named resources such as `gpu`.
    #[serde(default)]
    pub capacity: Amounts,
    /// What of it is kept for the host itself.
    #[serde(default)]
    pub reserved: Amounts,
    /// What keeps replicas away that do not tolerate it.
    #[serde(default)]
    #[schemars(
        length(max = 64),
        extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["key", "effect"])
    )]
    pub taints: Vec<Taint>,
    /// Takes no new replicas; those it has stay.
    #[serde(default)]
    pub unschedulable: bool,
    /// Those it has are moved elsewhere, within what their workloads allow.
    #[serde(default)]
    pub drain: bool,
}

/// A reason not to be on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// What it is: `gpu`, `example.com/dedicated`.
    #[schemars(extend("format" = "label-key"))]
    pub key: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("format" = "label-value"))]
    pub value: String,
    /// What it does.
    pub effect: TaintEffect,
    /// Since when, in milliseconds since 1970. How long it is borne counts from here.
    #[serde(default, rename = "sinceMs")]
    pub since: Option<Timestamp>,
}

/// What a taint does to replicas that do not tolerate it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum TaintEffect {
    /// New ones are not placed there.
    #[default]
    NoSchedule,
    /// New ones are placed there only if there is no other place.
    PreferNoSchedule,
    /// New ones are not placed there, and those there are moved elsewhere.
    NoExecute,
}

/// What is known of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeStatus {
    /// The generation this status is about.
    pub observed_generation: Generation,
    /// What replicas can have: the capacity without what is kept for the host.
    pub allocatable: Amounts,
    /// Who speaks for it.
    pub agent: Option<AgentInfo>,
    /// The epoch of its lease: moves whenever an agent registers anew.
    pub epoch: Epoch,
    /// What is true of it now, with what was seen: `Ready`, `Reachable`, `DiskPressure`, `MemoryPressure`.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// The agent of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct AgentInfo {
    /// Its version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Where its health and metrics are.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// Changes when the host starts anew: what ran before is gone then.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub boot_id: String,
    /// When the agent started, in milliseconds since 1970.
    #[serde(rename = "startedMs")]
    pub started: Timestamp,
    /// What it can run replicas with: `process`, `docker`.
    #[schemars(extend("x-setpoint-list-type" = "set"))]
    pub runtimes: Vec<String>,
    /// The system it runs on: `linux`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub os: String,
    /// The processors' architecture: `x86_64`, `aarch64`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub arch: String,
}

impl KindType for Node {
    const INFO: KindInfo = KindInfo {
        name: "Node",
        plural: "nodes",
        singular: "node",
        short_names: &["no"],
        namespaced: false,
        columns: &[
            Column::text("Ready", ".status.conditions[type=\"Ready\"].status"),
            Column::text("Zone", ".spec.zone"),
            Column::text("CPU", ".status.allocatable.cpu"),
            Column::text("Memory", ".status.allocatable.memory"),
            Column::boolean("Unschedulable", ".spec.unschedulable"),
            Column::text("Version", ".status.agent.version").wide(),
            Column::text("Address", ".status.agent.address").wide(),
            Column::AGE,
        ],
        selectable_fields: &["spec.zone", "spec.unschedulable"],
    };
    type Spec = NodeSpec;
    type Status = NodeStatus;

    fn check_spec(spec: &NodeSpec, problems: &mut Problems) {
        problems.field("reserved", |problems| {
            for (dimension, amount) in spec.reserved.iter() {
                if amount > spec.capacity.get(dimension).unwrap_or(0) {
                    problems.report_at(dimension, "must not be more than the capacity");
                }
            }
        });
        if spec.drain && !spec.unschedulable {
            problems.report_at("drain", "needs unschedulable, or what is moved away comes back");
        }
    }
}
