//! AdmissionPolicy: conditions on writes, and changes to them, in CEL.
//!
//! Not here: whether its expressions can be compiled, and their evaluation (the crate `admission`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::{Column, KindInfo, KindType};
use crate::names::check_kind;
use crate::object::Condition;
use crate::selector::LabelSelector;
use crate::{Generation, Problems};

/// The kind.
pub enum AdmissionPolicy {}

/// Which writes, what they are changed to, what they must fulfil. Expressions see:
///
/// - `object`: the object as it would be stored (`kind`, `metadata`, `spec`, `status`); null for a deletion.
/// - `oldObject`: the object as it is stored; null for a creation.
/// - `namespaceObject`: the Namespace it is in, as it is when the write is decided; null for kinds of the whole cluster.
/// - `request`: `operation` (Create, Update, Delete), `status` (true if only the status is written), `user`, `groups`, `kind`,
///   `namespace`, `name`, `dryRun`.
/// - `variables.NAME`: what `variables` define.
///
/// A policy is in force for every write after it was acknowledged, through every node. There are at most 1,000.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionPolicySpec {
    /// Which writes.
    #[serde(rename = "match")]
    pub matches: AdmissionMatch,
    /// Which of those: all of these must be true.
    #[serde(default)]
    #[schemars(
        length(max = 64),
        extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["name"])
    )]
    pub match_conditions: Vec<NamedExpression>,
    /// Values for the expressions below, in this order, as `variables.NAME`.
    #[serde(default)]
    #[schemars(
        length(max = 64),
        extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["name"])
    )]
    pub variables: Vec<NamedExpression>,
    /// What is changed, in this order, before anything is validated.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub mutations: Vec<Mutation>,
    /// What must be true.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub validations: Vec<Validation>,
    /// What happens if a validation is not true.
    #[serde(default = "deny")]
    #[schemars(length(min = 1, max = 3), extend("x-setpoint-list-type" = "set"))]
    pub actions: Vec<AdmissionAction>,
    /// What happens if an expression cannot be evaluated.
    #[serde(default)]
    pub failure_policy: FailurePolicy,
    /// Policies with a lower number go first; equal ones by name.
    #[serde(default)]
    pub order: i32,
}

fn deny() -> Vec<AdmissionAction> {
    vec![AdmissionAction::Deny]
}

/// Which writes. All that is said must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionMatch {
    /// Of these kinds; `*` for all.
    #[schemars(length(min = 1, max = 256), extend("x-setpoint-list-type" = "set"))]
    pub kinds: Vec<String>,
    /// Of these sorts. Empty: Create and Update.
    #[serde(default)]
    #[schemars(extend("x-setpoint-list-type" = "set"))]
    pub operations: Vec<AdmissionOperation>,
    /// In these namespaces. Empty: in all, and kinds of the whole cluster.
    #[serde(default)]
    #[schemars(
        length(max = 1024),
        extend("x-setpoint-list-type" = "set", "items" = {"type": "string", "format": "dns-label"})
    )]
    pub namespaces: Vec<String>,
    /// Of objects with these labels. On an update the old or the new ones are enough.
    #[serde(default, skip_serializing_if = "LabelSelector::is_everything")]
    pub labels: LabelSelector,
    /// Also writes of the status.
    #[serde(default)]
    pub status: bool,
}

/// Sorts of writes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum AdmissionOperation {
    /// A new object, however it is written.
    #[default]
    Create,
    /// A change, however it is written.
    Update,
    /// A deletion. It can be refused, not changed.
    Delete,
}

/// An expression with a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamedExpression {
    /// Letters, digits and `_`.
    #[schemars(extend("format" = "env-name"))]
    pub name: String,
    /// In CEL.
    #[schemars(length(min = 1, max = 4096))]
    pub expression: String,
}

/// A change of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Mutation {
    /// What the expression yields.
    #[serde(default, rename = "type")]
    pub kind: MutationType,
    /// In CEL.
    #[schemars(length(min = 1, max = 4096))]
    pub expression: String,
}

/// What the expression of a mutation yields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MutationType {
    /// A part of an object, which is merged into it (RFC 7396).
    #[default]
    Merge,
    /// A list of steps (RFC 6902).
    JsonPatch,
}

/// What must be true of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Validation {
    /// In CEL: true for what is allowed.
    #[schemars(length(min = 1, max = 4096))]
    pub expression: String,
    /// For people, if it is not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub message: String,
    /// Yields the message; `message` stands in if it cannot.
    #[serde(default)]
    pub message_expression: Option<String>,
    /// The field to blame: `.spec.replicas`.
    #[serde(default)]
    pub path: Option<String>,
}

/// What happens if a validation is not true.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum AdmissionAction {
    /// The write is refused.
    #[default]
    Deny,
    /// The writer is warned.
    Warn,
    /// It is noted in the audit log.
    Audit,
}

/// What happens if an expression cannot be evaluated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailurePolicy {
    /// As if the validation were not true.
    #[default]
    Fail,
    /// As if the policy did not match.
    Ignore,
}

/// Whether the policy is in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct AdmissionPolicyStatus {
    /// The generation that is in force.
    pub observed_generation: Generation,
    /// What is true of it now: `Compiled` while it is in force, from the revision on that made it.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl KindType for AdmissionPolicy {
    const INFO: KindInfo = KindInfo {
        name: "AdmissionPolicy",
        plural: "admissionpolicies",
        singular: "admissionpolicy",
        short_names: &["ap"],
        namespaced: false,
        columns: &[
            Column::text("Kinds", ".spec.match.kinds"),
            Column::text("Actions", ".spec.actions"),
            Column::AGE,
        ],
        selectable_fields: &[],
    };
    type Spec = AdmissionPolicySpec;
    type Status = AdmissionPolicyStatus;

    fn check_spec(spec: &AdmissionPolicySpec, problems: &mut Problems) {
        problems.field("match", |problems| {
            problems.each("kinds", &spec.matches.kinds, |problems, kind| {
                if kind != "*"
                    && let Err(message) = check_kind(kind)
                {
                    problems.report(message);
                }
            });
            if !spec.mutations.is_empty() && spec.matches.operations == [AdmissionOperation::Delete] {
                problems
                    .report_at("operations", "must have more than Delete for mutations to change something");
            }
        });
        if spec.mutations.is_empty() && spec.validations.is_empty() {
            problems.report_at("validations", "must not be empty, or mutations must not");
        }
        if spec.actions.contains(&AdmissionAction::Deny) && spec.actions.contains(&AdmissionAction::Warn) {
            problems
                .report_at("actions", "must not have both Deny and Warn: who is refused need not be warned");
        }
    }
}
