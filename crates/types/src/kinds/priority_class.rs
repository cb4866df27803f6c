//! PriorityClass: how important a replica is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::{Column, KindInfo, KindType};
use crate::object::Condition;

/// The kind.
pub enum PriorityClass {}

/// A name for a priority.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PriorityClassSpec {
    /// Higher goes first, in queues and in preemption.
    #[schemars(range(min = -1_000_000_000, max = 1_000_000_000), extend("x-setpoint-immutable" = true))]
    pub value: i32,
    /// Whether its replicas may take the place of others.
    #[serde(default)]
    pub preemption: Preemption,
    /// For replicas that name no class. If several classes say so, the one with the lowest value counts.
    #[serde(default)]
    pub default: bool,
    /// What it is for, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub description: String,
}

/// Whether a replica that finds no room may take that of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Preemption {
    /// It may take the place of replicas with a lower priority.
    #[default]
    LowerPriority,
    /// It waits for room, ahead of those with a lower priority.
    Never,
}

/// What is known of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct PriorityClassStatus {
    /// What is true of it now.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl KindType for PriorityClass {
    const INFO: KindInfo = KindInfo {
        name: "PriorityClass",
        plural: "priorityclasses",
        singular: "priorityclass",
        short_names: &["pc"],
        namespaced: false,
        columns: &[
            Column::integer("Value", ".spec.value"),
            Column::text("Preemption", ".spec.preemption"),
            Column::boolean("Default", ".spec.default"),
            Column::AGE,
        ],
        selectable_fields: &[],
    };
    type Spec = PriorityClassSpec;
    type Status = PriorityClassStatus;
}
