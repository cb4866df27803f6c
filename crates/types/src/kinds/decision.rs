//! Decision: why a component did what it did, or did nothing. Committed together with its effect.
//!
//! Identical failures are one decision with a count. What it says is bounded: counts always, single nodes only the few that
//! explain the outcome.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pending::PendingReason;
use crate::kind::{Column, KindInfo, KindType};
use crate::object::{Evidence, ObjectReference};
use crate::{Epoch, Generation, Problems, Revision, Timestamp};

/// The kind.
pub enum Decision {}

/// What was decided, about what, on which grounds. Nothing of it changes later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-setpoint-immutable" = true))]
pub struct DecisionSpec {
    /// About what.
    pub object: ObjectReference,
    /// The generation of it that was decided about.
    #[serde(default)]
    pub generation: Generation,
    /// What was decided on: "Place", "Preempt", "Scale", "RolloutStep", "Release", "Replace".
    #[schemars(extend("format" = "reason"))]
    pub action: String,
    /// What woke the component.
    pub cause: Option<Cause>,
    /// How long the object waited in the queue, in milliseconds.
    #[serde(default)]
    pub queue_wait_ms: u64,
    /// How often it was tried by now.
    #[serde(default)]
    pub attempt: u32,
    /// Who decided: "scheduler", "autoscaler".
    #[schemars(length(min = 1, max = 253))]
    pub component: String,
    /// The epoch of the component's lease.
    #[serde(default)]
    pub epoch: Epoch,
    /// Up to which revision the component had seen each kind.
    #[serde(default)]
    pub cache_revisions: BTreeMap<String, Revision>,
    /// The placement policy and its version that were in force.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub policy_version: String,
    /// How many nodes were looked at.
    pub search: Option<SearchScope>,
    /// How many nodes each filter ruled out.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub filters: Vec<FilterCount>,
    /// What was lacking least.
    #[serde(default)]
    #[schemars(length(max = 8))]
    pub nearest_misses: Vec<NearestMiss>,
    /// The best nodes, best first.
    #[serde(default)]
    #[schemars(length(max = 8))]
    pub scores: Vec<NodeScore>,
    /// What the quotas said.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub quota: Vec<QuotaVerdict>,
    /// What the rules of spreading said.
    #[serde(default)]
    #[schemars(length(max = 8))]
    pub topology: Vec<TopologyVerdict>,
    /// Whose place is taken.
    #[serde(default)]
    #[schemars(length(max = 256))]
    pub victims: Vec<Victim>,
    /// What else was seen that led to it.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub evidence: Vec<Evidence>,
    /// What came of it.
    pub verdict: Verdict,
    /// What it waits for before it is tried again.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub wake: Vec<WakeCondition>,
    /// How much of it was written down.
    #[serde(default)]
    pub detail: DetailLevel,
    /// The operation id of what was done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub operation: String,
    /// A W3C trace id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trace: String,
    /// When it was decided, in milliseconds since 1970.
    #[serde(default, rename = "timeMs")]
    pub time: Timestamp,
}

/// What woke a component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Cause {
    /// What: "Changed", "Timer", "Resync", "Retry".
    #[serde(skip_serializing_if = "String::is_empty")]
    pub trigger: String,
    /// The object whose change it was.
    pub object: Option<ObjectReference>,
    /// The revision of that change.
    pub revision: Revision,
}

/// How many nodes were looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct SearchScope {
    /// How many there are.
    pub nodes: u32,
    /// How many were looked at.
    pub evaluated: u32,
    /// How many would do.
    pub feasible: u32,
}

/// How many nodes a filter ruled out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FilterCount {
    /// The filter: "Resources", "Taints", "Zone".
    pub filter: String,
    /// More about it: the resource, the taint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Only nodes of this zone; all if it is left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub zone: String,
    /// How many.
    pub nodes: u32,
}

/// What was lacking least: "needs 500m cpu, a7 has 420m".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NearestMiss {
    /// The node.
    pub node: String,
    /// The resource, or the rule.
    pub dimension: String,
    /// What is needed.
    pub needed: String,
    /// What is there.
    pub found: String,
}

/// How well a node suits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeScore {
    /// The node.
    pub node: String,
    /// Altogether, the more the better.
    pub total: i64,
    /// What each rule added.
    #[serde(default)]
    pub terms: BTreeMap<String, i64>,
}

/// What a quota said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuotaVerdict {
    /// The ledger.
    pub ledger: String,
    /// The resource, in its smallest unit.
    pub dimension: String,
    /// What is used.
    pub used: i64,
    /// What may be used.
    pub limit: i64,
    /// What is asked for.
    pub requested: i64,
    /// Whether it fits.
    pub fits: bool,
    /// The revision at which it was read.
    #[serde(default)]
    pub revision: Revision,
}

/// What a rule of spreading said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyVerdict {
    /// Over what.
    pub topology_key: String,
    /// How many replicas each place has.
    #[serde(default)]
    pub counts: BTreeMap<String, u32>,
    /// How uneven it may be.
    pub max_skew: u32,
    /// The places that remain.
    #[serde(default)]
    pub allowed: Vec<String>,
}

/// Whose place is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Victim {
    /// The replica.
    pub replica: ObjectReference,
    /// Its priority.
    pub priority: i32,
    /// Its node.
    pub node: String,
}

/// What came of a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// What came of it.
    pub outcome: Outcome,
    /// Why, if it is not what was wanted.
    pub reason: Option<PendingReason>,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub message: String,
    /// The node that was chosen, if one was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// The revision of the effect; 0 if there was none.
    #[serde(default)]
    pub revision: Revision,
    /// If it was refused: the revision the component has to have seen before it tries again.
    #[serde(default)]
    pub catch_up_to: Revision,
}

/// What came of a decision.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Outcome {
    /// It was done.
    Accepted,
    /// It was tried, and refused by the commit.
    Rejected,
    /// It cannot be, as things are.
    Unschedulable,
    /// Not everything that has to be known was looked at, so nothing can be said.
    #[default]
    Undetermined,
    /// It will be tried later: a pause, a gate, a predecessor.
    Waiting,
    /// A quota or a policy does not allow more.
    Limited,
    /// There was nothing to do.
    Unchanged,
}

/// What a component waits for before it tries again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WakeCondition {
    /// What: "QuotaFreed", "CapacityFreed", "NodeJoined", "PolicyActivated", "Timer".
    pub event: String,
    /// More about it: the ledger and the resource, the labels of the node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// At the latest then, in milliseconds since 1970.
    #[serde(rename = "atMs")]
    pub at: Option<Timestamp>,
}

/// How much of a decision was written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DetailLevel {
    /// Counts.
    #[default]
    Counts,
    /// Everything that led to it.
    Full,
}

/// How often the same was decided again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct DecisionStatus {
    /// How often, about this or equal objects.
    pub count: u64,
    /// The first time, in milliseconds since 1970.
    #[serde(rename = "firstMs")]
    pub first: Timestamp,
    /// The last time, in milliseconds since 1970.
    #[serde(rename = "lastMs")]
    pub last: Timestamp,
    /// Up to which revision each kind had been seen the last time.
    pub cache_revisions: BTreeMap<String, Revision>,
    /// Decisions of the component that were not written, for there were too many.
    pub dropped: u64,
}

impl KindType for Decision {
    const INFO: KindInfo = KindInfo {
        name: "Decision",
        plural: "decisions",
        singular: "decision",
        short_names: &["dec"],
        namespaced: true,
        columns: &[
            Column::text("Kind", ".spec.object.kind"),
            Column::text("Object", ".spec.object.name"),
            Column::text("Action", ".spec.action"),
            Column::text("Outcome", ".spec.verdict.outcome"),
            Column::text("Reason", ".spec.verdict.reason"),
            Column::text("Node", ".spec.verdict.node"),
            Column::integer("Count", ".status.count"),
            Column::text("Component", ".spec.component").wide(),
            Column::AGE,
        ],
        selectable_fields: &[
            "spec.object.kind",
            "spec.object.name",
            "spec.object.uid",
            "spec.component",
            "spec.verdict.outcome",
            "spec.verdict.reason",
        ],
    };
    type Spec = DecisionSpec;
    type Status = DecisionStatus;

    fn check_spec(spec: &DecisionSpec, problems: &mut Problems) {
        let negative = matches!(
            spec.verdict.outcome,
            Outcome::Rejected | Outcome::Unschedulable | Outcome::Waiting | Outcome::Limited
        );
        if negative && spec.verdict.reason.is_none() {
            problems.field("verdict", |problems| {
                problems.report_at("reason", "is required unless it was done or there was nothing to do");
            });
        }
    }
}
