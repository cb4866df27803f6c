//! ReplicaSet: the replicas of one revision of a workload's template.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pending::PendingCount;
use super::template::ReplicaTemplate;
use super::workload_status::{LastAction, LastError, ReplicaCounts};
use crate::kind::{Column, KindInfo, KindType};
use crate::object::Condition;
use crate::{Generation, Problems, Timestamp};

/// The kind.
pub enum ReplicaSet {}

/// How many replicas of one revision there should be. Made by the workload controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaSetSpec {
    /// The workload, of the same namespace.
    #[schemars(extend("format" = "dns-subdomain", "x-setpoint-immutable" = true))]
    pub workload: String,
    /// The number of the revision, counted from 1.
    #[schemars(range(min = 1), extend("x-setpoint-immutable" = true))]
    pub revision: u64,
    /// How many of this revision there should be.
    #[serde(default)]
    #[schemars(range(max = 100_000))]
    pub replicas: u32,
    /// What each of them runs.
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub template: ReplicaTemplate,
    /// A fingerprint of the template: two revisions with the same one are the same.
    #[schemars(extend("format" = "label-value", "x-setpoint-immutable" = true))]
    pub template_hash: String,
    /// How long a replica must have been ready before it counts as available.
    #[serde(default)]
    pub min_ready_seconds: u32,
    /// How many the workload wanted in all when the number of this revision was decided.
    #[serde(default)]
    pub workload_replicas: u32,
    /// When it is no longer tried to run replicas that are made from now on, in milliseconds since 1970.
    #[serde(rename = "deadlineMs")]
    pub deadline: Option<Timestamp>,
}

/// How many replicas are how far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicaSetStatus {
    /// The generation this status is about.
    pub observed_generation: Generation,
    /// How many replicas are how far.
    pub replicas: ReplicaCounts,
    /// What the pending ones wait for.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["reason"]))]
    pub pending_reasons: Vec<PendingCount>,
    /// What the controller last tried.
    pub last_action: Option<LastAction>,
    /// What last went wrong.
    pub last_error: Option<LastError>,
    /// What is true of it now: `Repaired`, and `Created` if replicas cannot be made.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl KindType for ReplicaSet {
    const INFO: KindInfo = KindInfo {
        name: "ReplicaSet",
        plural: "replicasets",
        singular: "replicaset",
        short_names: &["rs"],
        namespaced: true,
        columns: &[
            Column::text("Workload", ".spec.workload"),
            Column::integer("Revision", ".spec.revision"),
            Column::integer("Desired", ".spec.replicas"),
            Column::integer("Serving", ".status.replicas.serving"),
            Column::AGE,
        ],
        selectable_fields: &["spec.workload"],
    };
    type Spec = ReplicaSetSpec;
    type Status = ReplicaSetStatus;

    fn check_spec(spec: &ReplicaSetSpec, problems: &mut Problems) {
        problems.field("template", |problems| spec.template.check(problems));
    }
}
