//! Roles and bindings as they are written; the objects `Role` and `RoleBinding` have the same fields in their specs.
//!
//! Both belong to the whole cluster. What a binding gives can be limited to namespaces; who may write bindings can still
//! give away only what they have, see [`super::Authorizer::missing`].

/// What may be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Role {
    pub name: String,
    pub rules: Vec<Rule>,
}

/// Verbs, on kinds, by these names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// `get`, `list`, …; `*` for all.
    pub verbs: Vec<String>,
    /// `Workload`; `Workload/status` for its status, `Workload/*` for both, `*/status` for the status of every kind, `*`
    /// for everything.
    pub kinds: Vec<String>,
    /// Only these: `web`, or `web-*` for all that begin so. Empty: all. For the kind `keys`, keys and beginnings of keys.
    pub names: Vec<String>,
}

/// Who may, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleBinding {
    pub name: String,
    pub role: String,
    /// `user:jane`, `group:deployers`, `node:a1`, `controller:autoscaler`.
    pub subjects: Vec<String>,
    /// Only in these. Empty: everywhere, kinds of the whole cluster included.
    pub namespaces: Vec<String>,
}
