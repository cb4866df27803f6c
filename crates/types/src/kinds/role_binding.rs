//! RoleBinding: who has a role, and where.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Problems;
use crate::kind::{Column, KindInfo, KindType};
use crate::object::Condition;

/// The kind.
pub enum RoleBinding {}

/// What a subject can begin with.
const SUBJECTS: [&str; 4] = ["controller", "group", "node", "user"];

/// Gives a role to subjects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleBindingSpec {
    /// The name of the role. Cannot be changed: make another binding.
    #[schemars(extend("format" = "dns-subdomain", "x-setpoint-immutable" = true))]
    pub role: String,
    /// Who has it: `user:jane`, `group:deployers`, `node:a1`, `controller:autoscaler`.
    #[serde(default)]
    #[schemars(length(max = 1024), extend("x-setpoint-list-type" = "set"))]
    pub subjects: Vec<String>,
    /// Only in these namespaces. Empty: everywhere, kinds of the whole cluster included.
    #[serde(default)]
    #[schemars(
        length(max = 1024),
        extend("x-setpoint-list-type" = "set", "items" = {"type": "string", "format": "dns-label"})
    )]
    pub namespaces: Vec<String>,
}

/// What is known of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct RoleBindingStatus {
    /// What is true of it now.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl KindType for RoleBinding {
    const INFO: KindInfo = KindInfo {
        name: "RoleBinding",
        plural: "rolebindings",
        singular: "rolebinding",
        short_names: &["rb"],
        namespaced: false,
        columns: &[
            Column::text("Role", ".spec.role"),
            Column::text("Subjects", ".spec.subjects"),
            Column::text("Namespaces", ".spec.namespaces").wide(),
            Column::AGE,
        ],
        selectable_fields: &["spec.role"],
    };
    type Spec = RoleBindingSpec;
    type Status = RoleBindingStatus;

    fn check_spec(spec: &RoleBindingSpec, problems: &mut Problems) {
        problems.each("subjects", &spec.subjects, |problems, subject| {
            let known = subject
                .split_once(':')
                .is_some_and(|(sort, name)| SUBJECTS.contains(&sort) && !name.is_empty());
            if !known {
                problems.report("must be like user:jane, group:deployers, node:a1 or controller:autoscaler");
            }
        });
    }
}
