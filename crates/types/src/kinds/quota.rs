//! Quota: how much a namespace may use, altogether and per zone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::{Column, KindInfo, KindType};
use crate::object::Condition;
use crate::quantity::Amounts;
use crate::{Generation, Problems, Revision};

/// The kind.
pub enum Quota {}

/// What the replicas of the namespace may use together. A replica that would exceed it is not bound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct QuotaSpec {
    /// The most of each resource, over all zones: `cpu`, `memory`, `gpu`, or `replicas` for their number. A resource
    /// that is not named is not limited.
    pub limits: Amounts,
    /// Further limits in single zones.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["zone"]))]
    pub zones: Vec<ZoneLimits>,
}

/// The most of each resource in one zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZoneLimits {
    /// The zone.
    #[schemars(extend("format" = "dns-label"))]
    pub zone: String,
    /// The most of each resource there.
    pub limits: Amounts,
}

/// What is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct QuotaStatus {
    /// The generation whose limits are in force.
    pub observed_generation: Generation,
    /// The revision at which the use was read.
    pub observed_revision: Revision,
    /// What is reserved, over all zones.
    pub used: Amounts,
    /// What is reserved in zones that have limits of their own.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["zone"]))]
    pub zones: Vec<ZoneUse>,
    /// What is true of it now.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// What is reserved in one zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZoneUse {
    /// The zone.
    pub zone: String,
    /// What is reserved there.
    pub used: Amounts,
}

impl KindType for Quota {
    const INFO: KindInfo = KindInfo {
        name: "Quota",
        plural: "quotas",
        singular: "quota",
        short_names: &["qu"],
        namespaced: true,
        columns: &[
            Column::text("CPU Used", ".status.used.cpu"),
            Column::text("CPU", ".spec.limits.cpu"),
            Column::text("Memory Used", ".status.used.memory"),
            Column::text("Memory", ".spec.limits.memory"),
            Column::AGE,
        ],
        selectable_fields: &[],
    };
    type Spec = QuotaSpec;
    type Status = QuotaStatus;

    fn check_spec(spec: &QuotaSpec, problems: &mut Problems) {
        if spec.limits.is_empty() && spec.zones.is_empty() {
            problems.report_at("limits", "must limit something, or zones must");
        }
        problems.each("zones", &spec.zones, |problems, zone| {
            problems.field("limits", |problems| {
                for (dimension, limit) in zone.limits.iter() {
                    if spec.limits.get(dimension).is_some_and(|whole| limit > whole) {
                        problems.report_at(dimension, "must not be above the limit over all zones");
                    }
                }
            });
        });
    }
}
