//! All roles and bindings, compiled into what each subject may do.
//!
//! A part that is not understood grants nothing and is reported; the rest counts. So a mistake in one role neither
//! opens a door nor closes all others.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::grant::{Grant, ParsedRule, RuleProblem, Scope};
use super::role::{Role, RoleBinding};
use super::target::Target;
use super::verb::Verb;
use crate::principal::Principal;

/// Where a grant comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub binding: String,
    pub role: String,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RoleBinding {} gives Role {}", self.binding, self.role)
    }
}

/// A role or binding that does not count, or not in full.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyProblem {
    #[error("Role {role}: rule {rule} grants nothing: {problem}")]
    Rule { role: String, rule: usize, problem: RuleProblem },
    #[error("RoleBinding {binding} grants nothing: there is no Role {role}")]
    NoRole { binding: String, role: String },
    #[error(
        "RoleBinding {binding}: {subject:?} is nobody: write user:NAME, group:NAME, node:NAME or controller:NAME"
    )]
    Subject { binding: String, subject: String },
    #[error("two Roles are named {0}; the later one counts")]
    Repeated(String),
}

/// Somebody who may, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// `user:jane`, `group:deployers`.
    pub subject: String,
    pub reason: String,
}

/// What everybody may do. Never changes: another one takes its place.
#[derive(Debug, Default)]
pub struct Policy {
    principals: HashMap<Box<str>, Vec<Grant>>,
    groups: HashMap<Box<str>, Vec<Grant>>,
    problems: Vec<PolicyProblem>,
}

/// The rules of each role that were understood.
type Compiled<'r> = HashMap<&'r str, Vec<Arc<ParsedRule>>>;

impl Policy {
    pub fn compile(roles: &[Role], bindings: &[RoleBinding]) -> Self {
        let mut policy = Self::default();
        let roles = policy.roles(roles);
        for binding in bindings {
            policy.bind(&roles, binding);
        }
        policy
    }

    /// What does not count, in the order it was found.
    pub fn problems(&self) -> &[PolicyProblem] {
        &self.problems
    }

    /// Everything somebody was given, by name or by group.
    pub fn grants(&self, principal: &Principal) -> impl Iterator<Item = &Grant> {
        let own = self.principals.get(principal.as_str());
        let of_groups = principal.groups().iter().filter_map(|group| self.groups.get(&**group));
        own.into_iter().chain(of_groups).flatten()
    }

    /// What allows it, if anything does.
    pub fn find(&self, principal: &Principal, verb: Verb, target: &Target<'_>) -> Option<&Arc<Source>> {
        self.grants(principal).find(|grant| grant.allows(verb, target)).map(|grant| &grant.source)
    }

    /// Everybody whom a binding allows it, in the order of their names.
    pub fn who_can(&self, verb: Verb, target: &Target<'_>) -> Vec<Holder> {
        let principals = self.principals.iter().map(|(name, grants)| (name.to_string(), grants));
        let groups = self.groups.iter().map(|(name, grants)| (format!("group:{name}"), grants));
        let mut holders: Vec<Holder> = principals
            .chain(groups)
            .filter_map(|(subject, grants)| {
                let grant = grants.iter().find(|grant| grant.allows(verb, target))?;
                Some(Holder { subject, reason: grant.source.to_string() })
            })
            .collect();
        holders.sort_unstable();
        holders
    }

    fn roles<'r>(&mut self, roles: &'r [Role]) -> Compiled<'r> {
        let mut compiled = HashMap::with_capacity(roles.len());
        for role in roles {
            let mut rules = Vec::with_capacity(role.rules.len());
            for (index, rule) in role.rules.iter().enumerate() {
                match ParsedRule::parse(rule) {
                    Ok(rule) => rules.push(Arc::new(rule)),
                    Err(problem) => self.problems.push(PolicyProblem::Rule {
                        role: role.name.clone(),
                        rule: index + 1,
                        problem,
                    }),
                }
            }
            if compiled.insert(role.name.as_str(), rules).is_some() {
                self.problems.push(PolicyProblem::Repeated(role.name.clone()));
            }
        }
        compiled
    }

    fn bind(&mut self, roles: &Compiled<'_>, binding: &RoleBinding) {
        let (name, role) = (&binding.name, &binding.role);
        let Some(rules) = roles.get(role.as_str()) else {
            let (binding, role) = (name.clone(), role.clone());
            return self.problems.push(PolicyProblem::NoRole { binding, role });
        };
        let scope = Scope::of(&binding.namespaces);
        let source = Arc::new(Source { binding: name.clone(), role: role.clone() });
        for subject in &binding.subjects {
            let Some(grants) = self.of(subject) else {
                let (binding, subject) = (name.clone(), subject.clone());
                self.problems.push(PolicyProblem::Subject { binding, subject });
                continue;
            };
            grants.extend(rules.iter().map(|rule| Grant {
                rule: rule.clone(),
                scope: scope.clone(),
                source: source.clone(),
            }));
        }
    }

    /// Where the grants of a subject are kept; none if nobody can be meant.
    fn of(&mut self, subject: &str) -> Option<&mut Vec<Grant>> {
        let (class, name) = subject.split_once(':')?;
        match class {
            _ if name.is_empty() => None,
            "group" => Some(self.groups.entry(name.into()).or_default()),
            "user" | "node" | "controller" => Some(self.principals.entry(subject.into()).or_default()),
            _ => None,
        }
    }
}
