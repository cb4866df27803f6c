//! The stored Role and RoleBinding objects, compiled into the policy that counts.
//!
//! Whenever one of them changes, all are read again. A node that makes such a write has its effect before it answers;
//! the others within moments. What is being deleted counts no more. Does nothing while access control is off.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use setpoint_access::{Authorizer, Permission, Policy, Principal, Role, RoleBinding, Rule, builtin_roles};
use setpoint_store::command::Range;
use setpoint_store::{ReadFailure, Store};
use setpoint_types::kinds::{AccessRule, RoleBindingSpec, RoleSpec};
use tokio_util::sync::CancellationToken;

use crate::objects::feed;
use crate::objects::key;
use crate::objects::write::convert;
use crate::replica::Halt;
use crate::watch::Hub;

pub const ROLE: &str = "Role";
pub const ROLE_BINDING: &str = "RoleBinding";

/// Roles, and bindings, that count; the log tells of more.
const OBJECTS_MAX: usize = 10_000;

pub struct Roles {
    store: Arc<Store>,
    authorizer: Arc<Authorizer>,
    /// Keeps two refreshes from overtaking each other.
    refreshing: Mutex<()>,
}

impl Roles {
    pub fn new(store: Arc<Store>, authorizer: Arc<Authorizer>) -> Self {
        Self { store, authorizer, refreshing: Mutex::default() }
    }

    pub fn is_on(&self) -> bool {
        self.authorizer.is_on()
    }

    /// What of these rules somebody could not do in these namespaces, or everywhere if there are none.
    pub fn missing(&self, principal: &Principal, rules: &[Rule], namespaces: &[String]) -> Vec<Permission> {
        self.authorizer.missing(principal, rules, namespaces)
    }

    /// Brings the policy in step with what is stored.
    pub fn refresh(&self) -> Result<(), ReadFailure> {
        if !self.is_on() {
            return Ok(());
        }
        let _one_at_a_time = self.refreshing.lock();
        let mut roles: Vec<Role> = self
            .read::<RoleSpec>(ROLE)?
            .into_iter()
            .map(|(name, spec)| Role { name, rules: spec.rules.into_iter().map(rule).collect() })
            .collect();
        // Last, so that they count whatever else has their names.
        roles.extend(builtin_roles());
        let bindings: Vec<RoleBinding> = self
            .read::<RoleBindingSpec>(ROLE_BINDING)?
            .into_iter()
            .map(|(name, spec)| {
                let RoleBindingSpec { role, subjects, namespaces } = spec;
                RoleBinding { name, role, subjects, namespaces }
            })
            .collect();
        let policy = Policy::compile(&roles, &bindings);
        for problem in policy.problems() {
            tracing::warn!(%problem, "a role or binding counts only in part");
        }
        self.authorizer.replace(policy);
        Ok(())
    }

    fn read<S: DeserializeOwned>(&self, kind: &str) -> Result<Vec<(String, S)>, ReadFailure> {
        let read = Range { limit: OBJECTS_MAX as i64, ..Range::latest(key::of_kind(kind)) };
        let found = self.store.range(&read)?;
        if found.more {
            tracing::warn!(kind, counted = OBJECTS_MAX, "there are more than count; delete some");
        }
        let mut read = Vec::with_capacity(found.kvs.len());
        for kv in &found.kvs {
            let Some(object) = convert::stored(kv) else { continue };
            if object.metadata.deleted_ms.is_some() {
                continue;
            }
            match serde_json::from_value(object.spec) {
                Ok(spec) => read.push((object.metadata.name, spec)),
                Err(error) => {
                    tracing::warn!(kind, name = object.metadata.name, %error, "it cannot be read and does not count");
                }
            }
        }
        Ok(read)
    }

    /// Follows the stored objects until `stop`, or until the node's storage fails.
    pub async fn run(self: Arc<Self>, hub: Arc<Hub>, halt: Halt, stop: CancellationToken) {
        if !self.is_on() {
            return;
        }
        let ranges = [key::of_kind(ROLE), key::of_kind(ROLE_BINDING)];
        let store = self.store.clone();
        feed::keep_in_step(&hub, &store, ranges, halt, stop, move || self.refresh()).await;
    }
}

pub fn rule(rule: AccessRule) -> Rule {
    let AccessRule { verbs, kinds, names } = rule;
    Rule { verbs, kinds, names }
}
