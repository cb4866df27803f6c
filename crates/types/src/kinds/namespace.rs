//! Namespace: where objects of one tenant live.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::{Column, KindInfo, KindType};
use crate::names::check_dns_label;
use crate::object::Condition;
use crate::{Generation, Problems};

/// The kind.
pub enum Namespace {}

/// A space of names, and the unit of tenancy: quotas, access and fair shares are per namespace. Deleted while objects are in
/// it, it stays until they are gone, and takes no new ones. The one called `default` is made with the first object in it, and
/// stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct NamespaceSpec {
    /// What it is for, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub description: String,
    /// Its share wherever namespaces compete for attention, as in queues: twice the weight, twice the share.
    #[schemars(range(min = 1, max = 1000))]
    pub weight: u32,
}

impl Default for NamespaceSpec {
    fn default() -> Self {
        Self { description: String::new(), weight: 1 }
    }
}

/// How far its deletion has come, if it is being deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct NamespaceStatus {
    /// The generation this status is about.
    pub observed_generation: Generation,
    /// Whether objects can be created in it.
    pub phase: NamespacePhase,
    /// While it is deleted: how many objects were left when it was last written, by kind; of at most 32 kinds.
    pub remaining: BTreeMap<String, u64>,
    /// What is true of it now.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Whether a namespace is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NamespacePhase {
    /// In use.
    #[default]
    Active,
    /// Its objects are being deleted; no new ones are accepted.
    Terminating,
}

impl KindType for Namespace {
    const INFO: KindInfo = KindInfo {
        name: "Namespace",
        plural: "namespaces",
        singular: "namespace",
        short_names: &["ns"],
        namespaced: false,
        columns: &[Column::text("Phase", ".status.phase"), Column::AGE],
        selectable_fields: &["status.phase"],
    };
    type Spec = NamespaceSpec;
    type Status = NamespaceStatus;

    fn check_name(name: &str, _spec: &NamespaceSpec, problems: &mut Problems) {
        // It is part of host names and of ledgers' names, so it has no dots.
        if let Err(message) = check_dns_label(name) {
            problems.report(message);
        }
    }
}
