//! What is known of a workload's replicas: how many are how far, and what stopped the others.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pending::PendingCount;
use super::rollout::RolloutPhase;
use crate::object::{Condition, ObjectReference};
use crate::{Generation, Revision, Timestamp};

/// How far a workload has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct WorkloadStatus {
    /// The generation this status is about. Older than the object's own: the controller has yet to see the change.
    pub observed_generation: Generation,
    /// How many replicas are how far.
    pub replicas: ReplicaCounts,
    /// What the pending ones wait for.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["reason"]))]
    pub pending_reasons: Vec<PendingCount>,
    /// How far the rollout has come.
    pub rollout: RolloutStatus,
    /// What the controller last tried.
    pub last_action: Option<LastAction>,
    /// What last went wrong.
    pub last_error: Option<LastError>,
    /// How it stands with the deadline, if there is one.
    pub deadline: Option<DeadlineStatus>,
    /// In a batch: how replicas ended that did not succeed.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["reason"]))]
    pub failures: Vec<FailureCount>,
    /// When a batch was done, in milliseconds since 1970.
    #[serde(rename = "finishedMs")]
    pub finished: Option<Timestamp>,
    /// What is true of it now: `Available`, `Progressing`, `Repaired`; for a batch `Complete` or `Failed`.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// How many replicas are how far. A replica is counted where it is now, so the numbers from `pending` to `failed` add up
/// to those there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicaCounts {
    /// How many there should be.
    pub desired: u32,
    /// How many were created and accepted.
    pub admitted: u32,
    /// Waiting for a node.
    pub pending: u32,
    /// With a node, not yet starting.
    pub bound: u32,
    /// Starting.
    pub starting: u32,
    /// Ready, not yet serving.
    pub ready: u32,
    /// Serving.
    pub serving: u32,
    /// On a node that is out of reach.
    pub unknown: u32,
    /// Being stopped.
    pub stopping: u32,
    /// Ended well, in a batch.
    pub succeeded: u32,
    /// Ended badly, in a batch.
    pub failed: u32,
    /// Of the newest revision of the template.
    pub updated: u32,
    /// Ready or serving for at least minReadySeconds.
    pub available: u32,
}

/// How far a rollout has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct RolloutStatus {
    /// How far it has come.
    pub phase: RolloutPhase,
    /// The number of the newest revision of the template.
    pub revision: u64,
    /// The last revision that was complete: what a failed rollout goes back to.
    pub stable_revision: u64,
    /// The revision that was given up, while the template still asks for it; 0 if there is none.
    pub failed_revision: u64,
    /// The name of the newest revision's ReplicaSet.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replica_set: String,
    /// When it last made progress, in milliseconds since 1970.
    #[serde(rename = "progressMs")]
    pub progress: Timestamp,
    /// What it waits for, if it is held.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// How many replicas of a batch ended for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureCount {
    /// In one word: "Error", "OutOfMemory", "NodeLost".
    pub reason: String,
    /// How many.
    pub count: u32,
    /// Whether they count against the backoff limit: what was lost with its node did not fail.
    #[serde(default)]
    pub counted: bool,
    /// What the last of them said, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// What a controller tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct LastAction {
    /// What: "EnsureReplica", "RequestRelease".
    #[serde(skip_serializing_if = "String::is_empty")]
    pub action: String,
    /// On what.
    pub object: ObjectReference,
    /// How often by now.
    pub attempt: u32,
    /// The operation id it was tried under.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operation: String,
    /// When, in milliseconds since 1970.
    #[serde(rename = "timeMs")]
    pub time: Timestamp,
    /// The revision it led to; 0 if that is not known.
    pub revision: Revision,
}

/// What went wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct LastError {
    /// In one word, for programs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When, in milliseconds since 1970.
    #[serde(rename = "timeMs")]
    pub time: Timestamp,
}

/// How it stands with the deadline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct DeadlineStatus {
    /// Whether it was kept.
    pub state: DeadlineState,
    /// When it is, in milliseconds since 1970.
    #[serde(rename = "timeMs")]
    pub time: Timestamp,
}

/// Whether a deadline was kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeadlineState {
    /// It lies ahead.
    #[default]
    Running,
    /// All was done in time.
    Met,
    /// It has passed, and not all was done.
    Exceeded,
}
