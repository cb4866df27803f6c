//! Roles that are always there, so that the first binding needs no role of its own.

use super::role::{Role, Rule};
use super::target::{CLUSTER, KEYS};

const READS: &[&str] = &["get", "list", "watch"];
/// What the users of a namespace write.
const WORK: &[&str] = &["Workload", "Autoscaler", "Lease", "Event", "Decision"];
/// What they read besides.
const SEEN: &[&str] =
    &["ReplicaSet", "Replica", "Replica/logs", "Binding", "Quota", "PlacementPolicy", "PriorityClass"];

/// The roles, to be compiled together with those that users write:
///
/// | role | may |
/// |---|---|
/// | `setpoint-viewer` | read the kinds of everyday work, and what replicas write |
/// | `setpoint-editor` | write them, too |
/// | `setpoint-admin` | do anything, roles and bindings and commands in replicas included |
/// | `setpoint-etcd` | read and write plain keys through the etcd services, and see the cluster's members and status |
pub fn builtin_roles() -> Vec<Role> {
    let work = [WORK, SEEN].concat();
    vec![
        role("setpoint-viewer", vec![rule(READS, &work)]),
        role("setpoint-editor", vec![rule(READS, &work), rule(&["*"], WORK)]),
        role("setpoint-admin", vec![rule(&["*"], &["*", "*/exec"])]),
        role("setpoint-etcd", vec![rule(&["*"], &[KEYS]), rule(&["get"], &[CLUSTER])]),
    ]
}

fn role(name: &str, rules: Vec<Rule>) -> Role {
    Role { name: name.to_owned(), rules }
}

fn rule(verbs: &[&str], kinds: &[&str]) -> Rule {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Rule { verbs: owned(verbs), kinds: owned(kinds), names: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rbac::{LEDGERS, Part, Policy, RoleBinding, Target, Verb};

    #[test]
    fn every_builtin_role_is_understood_and_only_admin_decides_about_access() {
        let roles = builtin_roles();
        for role in &roles {
            let binding = RoleBinding {
                name: "b".to_owned(),
                role: role.name.clone(),
                subjects: vec!["user:a".to_owned()],
                ..RoleBinding::default()
            };
            let policy = Policy::compile(&roles, &[binding]);
            assert_eq!(policy.problems(), []);
            for kind in ["Role", "RoleBinding", "Token", LEDGERS, CLUSTER] {
                let holders = policy.who_can(Verb::Update, &Target::all(kind, "n"));
                assert_eq!(!holders.is_empty(), role.name == "setpoint-admin", "{} and {kind}", role.name);
            }
            let exec = Target::object("Replica", "n", "web-0").part(Part::Exec);
            let holders = policy.who_can(Verb::Create, &exec);
            assert_eq!(!holders.is_empty(), role.name == "setpoint-admin", "{} and exec", role.name);
        }
    }
}
