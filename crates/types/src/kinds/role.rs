//! Role: what may be done.
//!
//! Not here: who may (`role_binding`), and the evaluation (the crate `access`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Problems;
use crate::kind::{Column, KindInfo, KindType};
use crate::names::check_kind;
use crate::object::Condition;

/// The kind.
pub enum Role {}

/// Every way to read or write, as roles name them.
const VERBS: [&str; 10] =
    ["*", "apply", "create", "delete", "get", "list", "patch", "transact", "update", "watch"];

/// What is no kind of object, and has rules all the same.
const NO_OBJECTS: [&str; 3] = ["keys", "ledgers", "cluster"];

/// What whoever has the role may do: all that any of the rules allows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct RoleSpec {
    /// What for, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub description: String,
    /// What is allowed.
    #[schemars(length(max = 256))]
    pub rules: Vec<AccessRule>,
}

/// Verbs, on kinds, by these names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessRule {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `apply`, `delete`, `transact`, or `*` for all.
    #[schemars(length(min = 1, max = 16), extend("x-setpoint-list-type" = "set"))]
    pub verbs: Vec<String>,
    /// `Workload`; `Workload/status` for its status, `Workload/*` for both, `*/status` for the status of every kind, `*`
    /// for everything; `Replica/logs` (with `get`) for what replicas write, which the stars include, and `Replica/exec` (with
    /// `create`) for running commands in them, which no star includes but that of `*/exec`; `keys` for the keys of the etcd interface, `ledgers` for ledgers, `cluster` for its members and upkeep.
    #[schemars(length(min = 1, max = 256), extend("x-setpoint-list-type" = "set"))]
    pub kinds: Vec<String>,
    /// Only these: `web`, or `web-*` for all that begin so. Empty: all. For the kind `keys`, keys and beginnings of keys.
    #[serde(default)]
    #[schemars(length(max = 256), extend("x-setpoint-list-type" = "set"))]
    pub names: Vec<String>,
}

/// What is known of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct RoleStatus {
    /// What is true of it now.
    #[schemars(extend("x-setpoint-list-type" = "map", "x-setpoint-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl KindType for Role {
    const INFO: KindInfo = KindInfo {
        name: "Role",
        plural: "roles",
        singular: "role",
        short_names: &[],
        namespaced: false,
        columns: &[Column::text("Description", ".spec.description"), Column::AGE],
        selectable_fields: &[],
    };
    type Spec = RoleSpec;
    type Status = RoleStatus;

    fn check_spec(spec: &RoleSpec, problems: &mut Problems) {
        problems.each("rules", &spec.rules, |problems, rule| {
            problems.each("verbs", &rule.verbs, |problems, verb| {
                if !VERBS.contains(&verb.as_str()) {
                    problems.report(format!("must be one of {}", VERBS.join(", ")));
                }
            });
            problems.each("kinds", &rule.kinds, |problems, kind| {
                if !is_kind_pattern(kind) {
                    problems
                        .report("must be like Workload, Workload/status, Replica/logs, Replica/exec, Workload/*, */status, *, keys, ledgers or cluster");
                }
            });
            problems.each("names", &rule.names, |problems, name| {
                if name.is_empty() || name.trim_end_matches('*').contains('*') || name.ends_with("**") {
                    problems.report("must be a name, or the beginning of one followed by a single `*`");
                }
            });
        });
    }
}

fn is_kind_pattern(text: &str) -> bool {
    let (kind, part) = text.split_once('/').map_or((text, None), |(kind, part)| (kind, Some(part)));
    let known_part = matches!(part, None | Some("status" | "logs" | "exec" | "*"));
    known_part && (kind == "*" || check_kind(kind).is_ok()) || NO_OBJECTS.contains(&text)
}
