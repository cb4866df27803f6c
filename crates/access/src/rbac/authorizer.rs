//! The policy that counts now, and decisions by it.
//!
//! A decision looks at the rules of one principal and of its groups, and takes no lock but to copy a pointer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use super::decision::Decision;
use super::grant::{ParsedRule, Scope};
use super::need::Need;
use super::policy::{Holder, Policy};
use super::role::Rule;
use super::target::Target;
use super::verb::Verb;
use crate::principal::{ADMINS, Principal};

/// Decides. Shared by all requests.
pub struct Authorizer {
    /// None while access control is off.
    policy: Option<RwLock<Arc<Policy>>>,
    /// How often another policy took its place.
    changes: AtomicU64,
}

/// What somebody would give away without having it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    pub verb: Verb,
    /// As the rule writes it.
    pub kind: String,
}

impl Authorizer {
    /// Allows everything to everybody.
    pub fn off() -> Self {
        Self { policy: None, changes: AtomicU64::new(0) }
    }

    /// Allows what a policy does, and nothing else.
    pub fn on(policy: Policy) -> Self {
        Self { policy: Some(RwLock::new(Arc::new(policy))), changes: AtomicU64::new(0) }
    }

    pub fn is_on(&self) -> bool {
        self.policy.is_some()
    }

    /// From now on this policy counts. Does nothing while access control is off.
    pub fn replace(&self, policy: Policy) {
        if let Some(present) = &self.policy {
            *present.write() = Arc::new(policy);
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Changes whenever the policy does: what was decided while it was the same need not be decided again.
    pub fn version(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The policy that counts, if access control is on.
    pub fn policy(&self) -> Option<Arc<Policy>> {
        self.policy.as_ref().map(|policy| policy.read().clone())
    }

    /// Whether somebody may do this.
    pub fn check(&self, principal: &Principal, verb: Verb, target: &Target<'_>) -> Decision {
        let Some(policy) = self.policy() else { return Decision::Off };
        if principal.is_in(ADMINS) {
            return Decision::Admin;
        }
        match policy.find(principal, verb, target) {
            Some(source) => Decision::Granted(source.clone()),
            None => Decision::denied(principal, verb, target),
        }
    }

    /// Whether somebody may do what a request needs. What is reserved, nobody may while access control is on.
    pub fn decide(&self, principal: &Principal, need: &Need) -> Decision {
        if need.is_reserved() && self.is_on() {
            return Decision::reserved(principal, need);
        }
        self.check(principal, need.verb, &need.target())
    }

    /// Whether somebody may do anything at all with objects of a kind, anywhere.
    pub fn knows(&self, principal: &Principal, kind: &str) -> bool {
        let Some(policy) = self.policy() else { return true };
        principal.is_in(ADMINS) || policy.grants(principal).any(|grant| grant.rule.concerns(kind))
    }

    /// Whether somebody may do anything at all.
    pub fn knows_any(&self, principal: &Principal) -> bool {
        let Some(policy) = self.policy() else { return true };
        principal.is_in(ADMINS) || policy.grants(principal).next().is_some()
    }

    /// Everybody who may do this, besides those of whom a group says so. Nobody is named while access control is off.
    pub fn who_can(&self, verb: Verb, target: &Target<'_>) -> Vec<Holder> {
        let Some(policy) = self.policy() else { return Vec::new() };
        let mut holders = policy.who_can(verb, target);
        holders.insert(0, Holder { subject: format!("group:{ADMINS}"), reason: Decision::Admin.to_string() });
        holders
    }

    /// What of `rules` somebody could not do in `namespaces` (everywhere, if empty). Nobody may write a role or a binding
    /// that gives more than they have: whoever may write bindings could else give themselves everything. Rules that are
    /// not understood grant nothing, and are left to whoever validates them.
    pub fn missing(&self, principal: &Principal, rules: &[Rule], namespaces: &[String]) -> Vec<Permission> {
        let Some(policy) = self.policy() else { return Vec::new() };
        if principal.is_in(ADMINS) {
            return Vec::new();
        }
        let scope = Scope::of(namespaces);
        let mut missing = Vec::new();
        for (rule, parsed) in rules.iter().filter_map(|rule| Some((rule, ParsedRule::parse(rule).ok()?))) {
            for (text, kind) in rule.kinds.iter().zip(&parsed.kinds) {
                let lacks = |verb: &Verb| {
                    !policy.grants(principal).any(|grant| grant.covers(*verb, kind, &parsed.names, &scope))
                };
                let verbs = parsed.verbs.iter().filter(lacks);
                missing.extend(verbs.map(|verb| Permission { verb, kind: text.clone() }));
            }
        }
        missing
    }
}
