//! The kind `Config`: settings of programs. The comments are what users read about it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use setpoint_types::object::Condition;
use setpoint_types::{Column, Generation, KindInfo, KindType};

/// The kind.
#[derive(Clone, Copy, Debug)]
pub enum Config {}

/// Settings of programs, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigSpec {
    /// The settings. Whoever sets one decides all of them: they are one value.
    #[schemars(extend("x-setpoint-map-type" = "atomic", "minProperties" = 1, "maxProperties" = 1000))]
    pub data: BTreeMap<String, String>,
    /// Which namespaces get a copy, by their labels: `tier in (gold,silver)`. Empty: every namespace. Without meaning in a copy.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("format" = "label-selector"))]
    pub namespaces: String,
}

/// How far its distribution is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ConfigStatus {
    /// The generation this status is about.
    pub observed_generation: Generation,
    /// How many namespaces have the copy they should have.
    pub copies: u32,
    /// What is true of it now: `Distributed` if every namespace that should have a copy has it.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl KindType for Config {
    const INFO: KindInfo = KindInfo {
        name: "Config",
        plural: "configs",
        singular: "config",
        short_names: &["cfg"],
        namespaced: true,
        columns: &[
            Column::integer("Copies", ".status.copies"),
            Column::text("Namespaces", ".spec.namespaces").wide(),
            Column::AGE,
        ],
        selectable_fields: &[],
    };
    type Spec = ConfigSpec;
    type Status = ConfigStatus;
}
