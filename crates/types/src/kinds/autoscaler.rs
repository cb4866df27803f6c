//! Autoscaler: how many replicas a workload should have, by what is measured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pending::PendingReason;
use crate::kind::{Column, KindInfo, KindType};
use crate::object::Condition;
use crate::quantity::{CountOrPercent, Unit};
use crate::{Generation, Problems, Revision, Timestamp};

/// The kind.
pub enum Autoscaler {}

/// Keeps the number of a workload's replicas between two bounds, by what is measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalerSpec {
    /// What is scaled.
    #[schemars(extend("x-setpoint-immutable" = true))]
    pub target: ScaleTarget,
    /// Never fewer.
    #[serde(default = "one")]
    #[schemars(range(max = 100_000))]
    pub min_replicas: u32,
    /// Never more.
    #[schemars(range(min = 1, max = 100_000))]
    pub max_replicas: u32,
    /// What is measured. Each proposes a number, and the largest counts.
    #[schemars(
        length(min = 1, max = 16),
        extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["name"])
    )]
    pub metrics: Vec<Metric>,
    /// A deviation of the metric so small is no reason to act, in percent.
    #[serde(default = "ten")]
    #[schemars(range(max = 100))]
    pub tolerance_percent: u32,
    /// How fast it may go.
    #[serde(default)]
    pub behaviour: ScaleBehaviour,
    /// Keeps on proposing, but changes nothing.
    #[serde(default)]
    pub paused: bool,
}

fn one() -> u32 {
    1
}

fn ten() -> u32 {
    10
}

/// What is scaled, in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleTarget {
    /// `Workload`, or a kind of your own that has `.spec.replicas`.
    #[serde(default = "workload")]
    #[schemars(extend("format" = "kind"))]
    pub kind: String,
    /// Its name.
    #[schemars(extend("format" = "dns-subdomain"))]
    pub name: String,
}

fn workload() -> String {
    "Workload".to_owned()
}

/// Something that is measured, and how much of it is right.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metric {
    /// Its name: of a resource for Utilization, else as it is reported.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// What its value means.
    #[serde(rename = "type")]
    pub kind: MetricType,
    /// The right value: percent for Utilization, else a number such as "100" or "500m".
    pub target: String,
    /// A value older than this is none.
    #[serde(default = "sixty")]
    #[schemars(range(min = 1))]
    pub max_age_seconds: u32,
}

fn sixty() -> u32 {
    60
}

impl Metric {
    /// The right value in thousandths; of a percentage in percent.
    pub fn target_amount(&self) -> Option<i64> {
        let unit = if self.kind == MetricType::Utilization { Unit::Count } else { Unit::Milli };
        unit.parse(&self.target).ok().filter(|target| *target > 0)
    }
}

/// What a metric's value means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MetricType {
    /// The share of what is reserved of a resource that is used, over all replicas.
    #[default]
    Utilization,
    /// The average over all replicas.
    Average,
    /// The whole, whatever the number of replicas, such as the length of a queue. It is divided by them.
    Total,
}

/// How fast the number may change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ScaleBehaviour {
    /// Towards more.
    pub up: ScaleRule,
    /// Towards fewer.
    pub down: ScaleRule,
}

/// How fast the number may change in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ScaleRule {
    /// Of all that was proposed in this time, the proposal that changes least is followed. Left out: 0 towards more, 300
    /// towards fewer.
    #[schemars(range(max = 3600))]
    pub stabilization_seconds: Option<u32>,
    /// The most per period: a number, or a share of the replicas there are.
    pub max_step: CountOrPercent,
    /// So many per period are allowed even if `maxStep` is less. Left out: 4 towards more, 1 towards fewer.
    pub min_step: Option<u32>,
    /// How long a period is.
    #[schemars(range(min = 1, max = 1800))]
    pub period_seconds: u32,
    /// No change in this direction.
    pub disabled: bool,
}

impl Default for ScaleRule {
    fn default() -> Self {
        Self {
            stabilization_seconds: None,
            max_step: CountOrPercent::Percent(100),
            min_step: None,
            period_seconds: 15,
            disabled: false,
        }
    }
}

/// What was measured, proposed and done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct AutoscalerStatus {
    /// The generation this status is about.
    pub observed_generation: Generation,
    /// How many replicas there are.
    pub current: u32,
    /// How many there should be.
    pub desired: u32,
    /// How many there should be by the metrics alone, without bounds and blockers.
    pub recommended: u32,
    /// Why it does not follow the recommendation, if pending replicas are the reason.
    pub limited_by: Option<PendingReason>,
    /// The revision up to which the reasons of pending replicas were known.
    pub observed_revision: Revision,
    /// When it last changed the number, in milliseconds since 1970.
    #[serde(rename = "lastScaleMs")]
    pub last_scale: Option<Timestamp>,
    /// What was measured.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["name"]))]
    pub metrics: Vec<MetricStatus>,
    /// What was recommended of late, oldest first, each from its time to that of the next: what a stabilization window looks back on.
    #[schemars(length(max = 64))]
    pub recommendations: Vec<Recommendation>,
    /// How the number was changed of late, oldest first: what the steps per period are counted by.
    #[schemars(length(max = 64))]
    pub changes: Vec<ScaleChange>,
    /// What is true of it now: `Active`, `Limited`.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricStatus {
    /// Of which metric.
    pub name: String,
    /// Its value, written as its target is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// How many replicas it proposes.
    #[serde(default)]
    pub proposes: u32,
    /// When it was measured, in milliseconds since 1970.
    #[serde(default, rename = "timeMs")]
    pub time: Timestamp,
}

/// What the metrics proposed from a time on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recommendation {
    /// In milliseconds since 1970.
    #[serde(rename = "timeMs")]
    pub time: Timestamp,
    /// How many, within the bounds.
    pub replicas: u32,
}

/// A change of the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleChange {
    /// In milliseconds since 1970.
    #[serde(rename = "timeMs")]
    pub time: Timestamp,
    /// How many there should have been before.
    pub from: u32,
    /// And from then on.
    pub to: u32,
}

impl KindType for Autoscaler {
    const INFO: KindInfo = KindInfo {
        name: "Autoscaler",
        plural: "autoscalers",
        singular: "autoscaler",
        short_names: &["as"],
        namespaced: true,
        columns: &[
            Column::text("Target", ".spec.target.name"),
            Column::integer("Min", ".spec.minReplicas"),
            Column::integer("Max", ".spec.maxReplicas"),
            Column::integer("Desired", ".status.desired"),
            Column::text("Limited By", ".status.limitedBy"),
            Column::AGE,
        ],
        selectable_fields: &["spec.target.kind", "spec.target.name"],
    };
    type Spec = AutoscalerSpec;
    type Status = AutoscalerStatus;

    fn check_spec(spec: &AutoscalerSpec, problems: &mut Problems) {
        if spec.min_replicas > spec.max_replicas {
            problems.report_at("minReplicas", "must not be more than maxReplicas");
        }
        problems.each("metrics", &spec.metrics, |problems, metric| {
            if metric.target_amount().is_none() {
                let message = match metric.kind {
                    MetricType::Utilization => "must be a whole number of percent above 0",
                    MetricType::Average | MetricType::Total => {
                        "must be a number above 0 such as \"100\" or \"500m\""
                    }
                };
                problems.report_at("target", message);
            }
        });
        problems.field("behaviour", |problems| {
            for (name, rule) in [("up", &spec.behaviour.up), ("down", &spec.behaviour.down)] {
                if !rule.disabled && rule.max_step.is_zero() && rule.min_step == Some(0) {
                    problems.field(name, |problems| {
                        problems.report_at("maxStep", "must not be 0 while minStep is 0: disable it instead");
                    });
                }
            }
        });
    }
}
