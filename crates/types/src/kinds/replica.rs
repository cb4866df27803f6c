//! Replica: one unit of work, and how far it has come.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pending::PendingReason;
use super::template::{Protocol, ReplicaTemplate};
use crate::kind::{Column, KindInfo, KindType};
use crate::object::Condition;
use crate::{Generation, Problems, Revision, Timestamp, Uid};

/// The kind.
pub enum Replica {}

/// One unit of work. Made by the replica controller; nothing of it changes later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaSpec {
    /// The workload it belongs to, of the same namespace.
    #[schemars(extend("format" = "dns-subdomain", "x-setpoint-immutable" = true))]
    pub workload: String,
    /// The ReplicaSet it belongs to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub replica_set: String,
    /// The revision of the template it was made from.
    #[serde(default)]
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub revision: u64,
    /// What it runs.
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub template: ReplicaTemplate,
    /// The priority its class had when it was made.
    #[serde(default)]
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub priority: i32,
    /// In a batch: which of the completions it is for, counted from 0.
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub completion_index: Option<u32>,
    /// In a batch: how many replicas failed before it.
    #[serde(default)]
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub attempt: u32,
    /// The binding whose loss it makes good, if it does.
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub replaces: Option<String>,
    /// When it is no longer tried to run it, in milliseconds since 1970.
    #[serde(rename = "deadlineMs")]
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub deadline: Option<Timestamp>,
}

/// How far a replica has come. The scheduler writes what it decides, the agent what it does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicaStatus {
    /// The generation this status is about.
    pub observed_generation: Generation,
    /// How far it has come.
    pub stage: Stage,
    /// When it came to each stage. A stage it has left and come to again has the later time.
    pub stages: StageTimes,
    /// What it waits for, if it waits.
    pub blocked: Option<Blocked>,
    /// The node it is bound to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// Tells that node from a later one of its name.
    #[serde(skip_serializing_if = "Uid::is_empty")]
    pub node_uid: Uid,
    /// The name of its Binding.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub binding: String,
    /// The name of the last Decision about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub decision: String,
    /// How often it was tried to find a node.
    pub schedule_attempts: u32,
    /// How often it was started again on its node.
    pub restarts: u32,
    /// How it ended last, if it ever did.
    pub last_exit: Option<Exit>,
    /// Where its ports can be reached.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["name"]))]
    pub endpoints: Vec<ReplicaEndpoint>,
    /// What is true of it now: `Scheduled`, `Started`, `Live`, `Ready`.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// How far a replica has come.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// It was created and accepted.
    #[default]
    Admitted,
    /// The scheduler has it in its queue.
    Queued,
    /// A node was found.
    Scheduled,
    /// The node is its own: what it needs is reserved.
    Bound,
    /// The agent is starting it.
    Starting,
    /// It is ready.
    Ready,
    /// It is used.
    Serving,
    /// It is being stopped.
    Stopping,
    /// It ended well and is not started again.
    Succeeded,
    /// It ended badly and is not started again.
    Failed,
}

/// When a replica came to each stage, in milliseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct StageTimes {
    /// When the scheduler took it into its queue.
    #[serde(rename = "queuedMs")]
    pub queued: Option<Timestamp>,
    /// When a node was found.
    #[serde(rename = "scheduledMs")]
    pub scheduled: Option<Timestamp>,
    /// When the node became its own.
    #[serde(rename = "boundMs")]
    pub bound: Option<Timestamp>,
    /// When the agent began to start it.
    #[serde(rename = "startingMs")]
    pub starting: Option<Timestamp>,
    /// When it became ready.
    #[serde(rename = "readyMs")]
    pub ready: Option<Timestamp>,
    /// When it was first used.
    #[serde(rename = "servingMs")]
    pub serving: Option<Timestamp>,
    /// When it was told to stop.
    #[serde(rename = "stoppingMs")]
    pub stopping: Option<Timestamp>,
    /// When it ended for good.
    #[serde(rename = "endedMs")]
    pub ended: Option<Timestamp>,
}

/// What a replica waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Blocked {
    /// Why.
    pub reason: PendingReason,
    /// Why, for people: "needs 500m cpu, the best node has 420m".
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Since when, in milliseconds since 1970.
    #[serde(rename = "sinceMs")]
    pub since: Timestamp,
    /// The revision it was found at. What was changed later is not in it.
    pub revision: Revision,
}

/// How a replica ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Exit {
    /// The exit status, if it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// In one word: "Completed", "Error", "OutOfMemory", "Killed", "ProbeFailed".
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it had started, in milliseconds since 1970.
    #[serde(rename = "startedMs")]
    pub started: Timestamp,
    /// When it ended, in milliseconds since 1970.
    #[serde(rename = "endedMs")]
    pub ended: Timestamp,
}

/// Where a port can be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaEndpoint {
    /// The port's name in the template.
    pub name: String,
    /// Address or host name.
    pub host: String,
    /// The port.
    pub port: u16,
    /// How it is spoken to.
    #[serde(default)]
    pub protocol: Protocol,
}

impl KindType for Replica {
    const INFO: KindInfo = KindInfo {
        name: "Replica",
        plural: "replicas",
        singular: "replica",
        short_names: &["rp"],
        namespaced: true,
        columns: &[
            Column::text("Stage", ".status.stage"),
            Column::text("Waits For", ".status.blocked.reason"),
            Column::text("Node", ".status.node"),
            Column::integer("Restarts", ".status.restarts"),
            Column::text("Workload", ".spec.workload").wide(),
            Column::integer("Revision", ".spec.revision").wide(),
            Column::AGE,
        ],
        selectable_fields: &["spec.workload", "spec.replicaSet", "status.node", "status.stage"],
    };
    type Spec = ReplicaSpec;
    type Status = ReplicaStatus;

    fn check_spec(spec: &ReplicaSpec, problems: &mut Problems) {
        problems.field("template", |problems| spec.template.check(problems));
    }
}
