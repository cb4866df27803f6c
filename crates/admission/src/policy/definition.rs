//! The spec of an `AdmissionPolicy`, as users write it.

use serde::{Deserialize, Serialize};

use super::review::Operation;

/// What must hold for writes, and what is changed in them on the way in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionPolicySpec {
    /// Which writes it is about.
    #[serde(rename = "match")]
    pub matches: MatchSpec,
    /// All must be true, too. Asked in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_conditions: Vec<MatchCondition>,
    /// Values for the expressions that follow, as `variables.NAME`. Each sees those before it, and is evaluated when it is
    /// first needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<Variable>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub validations: Vec<Validation>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mutations: Vec<Mutation>,
    /// What a validation that fails does to the write.
    #[serde(default)]
    pub action: Action,
    /// What an expression that cannot be evaluated does to it.
    #[serde(default)]
    pub failure_policy: FailurePolicy,
}

/// Everything that is given must fit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MatchSpec {
    /// `Workload`; `*` for every kind. Policies themselves are never matched: one that forbade all could not be removed.
    pub kinds: Vec<String>,
    /// All, if none is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<Operation>,
    /// All, if none is given. Objects of the whole cluster are in none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except_namespaces: Vec<String>,
    /// `app=web`: of the object, or of what it was before.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label_selector: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MatchCondition {
    /// For messages.
    pub name: String,
    pub expression: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Variable {
    pub name: String,
    pub expression: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Validation {
    /// True for what is allowed.
    pub expression: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Yields the message; `message` stands in if it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_expression: Option<String>,
    #[serde(default)]
    pub reason: Reason,
    /// The field to blame: `.spec.replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mutation {
    /// Yields a map, which is merged into the object (RFC 7396), or a list of steps of a JSON patch (RFC 6902).
    pub expression: String,
}

/// For programs that are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// The object is not acceptable.
    #[default]
    Invalid,
    /// Who asks may not do this.
    Forbidden,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Refuses the write.
    #[default]
    Deny,
    /// Lets it pass and tells the client.
    Warn,
    /// Lets it pass and tells the audit log.
    Audit,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailurePolicy {
    /// As if the validation had failed; a mutation that cannot be made refuses the write.
    #[default]
    Fail,
    /// As if the policy did not exist; the audit log is told.
    Ignore,
}
