//! What a Greeter is. The comments are what its users read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use setpoint_types::object::Condition;
use setpoint_types::{Column, Generation, KindInfo, KindType};

/// The kind.
pub enum Greeter {}

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GreeterSpec {
    /// What is said.
    #[schemars(length(min = 1, max = 1024))]
    pub message: String,
    /// By how many.
    #[serde(default = "one")]
    #[schemars(range(max = 100))]
    pub replicas: u32,
}

fn one() -> u32 {
    1
}

/// What is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct GreeterStatus {
    /// The generation this is about.
    pub observed_generation: Generation,
    /// How many are ready.
    pub ready_replicas: u32,
    /// What is true of it now: `Ready`.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl KindType for Greeter {
    const INFO: KindInfo = KindInfo {
        name: "Greeter",
        plural: "greeters",
        singular: "greeter",
        short_names: &[],
        namespaced: true,
        columns: &[
            Column::text("Message", ".spec.message"),
            Column::integer("Ready", ".status.readyReplicas"),
            Column::AGE,
        ],
        selectable_fields: &[],
    };
    type Spec = GreeterSpec;
    type Status = GreeterStatus;
}
