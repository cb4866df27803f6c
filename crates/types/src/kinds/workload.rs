//! Workload: replicas of one template, kept running or run to their end.
//!
//! Not here: what is known of them (`workload_status`), what each runs (`template`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rollout::Rollout;
use super::template::{ReplicaTemplate, RestartPolicy};
use super::workload_status::WorkloadStatus;
use crate::Problems;
use crate::kind::{Column, KindInfo, KindType};

/// The kind.
pub enum Workload {}

/// What to run, and how many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadSpec {
    /// How many are to run. Leave it out where an autoscaler decides. Without meaning in batch mode.
    #[serde(default = "one")]
    #[schemars(range(max = 100_000))]
    pub replicas: u32,
    /// What each of them runs.
    pub template: ReplicaTemplate,
    /// How a changed template is rolled out.
    #[serde(default)]
    pub rollout: Rollout,
    /// How long it may take from the creation, or from the last change, until as many replicas serve as are wanted, or until
    /// a batch is done. What is not done then is not tried any more. Left out: for ever.
    #[schemars(range(min = 1))]
    pub deadline_seconds: Option<u32>,
    /// Makes it a batch: replicas run to their end and are not started again once they succeeded.
    pub batch: Option<Batch>,
}

fn one() -> u32 {
    1
}

/// Work with an end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Batch {
    /// How many replicas have to succeed.
    #[schemars(range(min = 1, max = 100_000), extend("x-setpoint-immutable" = true))]
    pub completions: u32,
    /// How many run at a time. 0 suspends it.
    #[schemars(range(max = 100_000))]
    pub parallelism: u32,
    /// How many replicas may fail before the whole batch has failed.
    pub backoff_limit: u32,
    /// How long it is kept once it is done. Left out: until it is deleted.
    pub ttl_seconds: Option<u32>,
}

impl Default for Batch {
    fn default() -> Self {
        Self { completions: 1, parallelism: 1, backoff_limit: 6, ttl_seconds: None }
    }
}

impl KindType for Workload {
    const INFO: KindInfo = KindInfo {
        name: "Workload",
        plural: "workloads",
        singular: "workload",
        short_names: &["wl"],
        namespaced: true,
        columns: &[
            Column::integer("Desired", ".status.replicas.desired"),
            Column::integer("Serving", ".status.replicas.serving"),
            Column::integer("Pending", ".status.replicas.pending"),
            Column::integer("Unknown", ".status.replicas.unknown"),
            Column::text("Rollout", ".status.rollout.phase"),
            Column::text("Image", ".spec.template.image").wide(),
            Column::AGE,
        ],
        selectable_fields: &["spec.template.priorityClass", "status.rollout.phase"],
    };
    type Spec = WorkloadSpec;
    type Status = WorkloadStatus;

    fn check_spec(spec: &WorkloadSpec, problems: &mut Problems) {
        problems.field("template", |problems| spec.template.check(problems));
        problems.field("rollout", |problems| spec.rollout.check(problems));
        if spec.batch.is_some() {
            if spec.template.restart_policy == RestartPolicy::Always {
                problems.field("template", |problems| {
                    problems.report_at("restartPolicy", "must be OnFailure or Never for a batch");
                });
            }
            if spec.replicas > 1 {
                problems.report_at("replicas", "is not for a batch: it has completions and parallelism");
            }
        }
    }

    fn check_change(old: &Value, new: &WorkloadSpec, problems: &mut Problems) {
        let was_batch = old.get("batch").is_some_and(|batch| !batch.is_null());
        if was_batch != new.batch.is_some() {
            problems.report_at("batch", "cannot be added or removed: make another workload");
        }
    }
}
