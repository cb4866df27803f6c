//! What a role or a binding gives away: nobody gives more than they have (A4).
//!
//! A role counts as if it were bound everywhere, so that who may write roles alone cannot enlarge what others have bound.
//! A binding gives what its role allows at the moment, or anything, if there is no such role; the commit is guarded by it. Both are judged by the policy
//! as it is after a barrier: what was withdrawn at another node is not given away here.

use setpoint_access::{Permission, Rule, builtin_roles};
use setpoint_api::setpoint::v1::Reason;
use setpoint_objects::Object;
use setpoint_objects::write::Outcome;
use setpoint_types::Revision;
use setpoint_types::kinds::{RoleBindingSpec, RoleSpec};

use super::commit::Change;
use super::intent::Intent;
use super::options::Options;
use super::writer::{Writer, Written};
use crate::access::{ROLE, ROLE_BINDING};
use crate::objects::error::Refusal;
use crate::objects::key::ObjectName;
use crate::objects::reader::blocking;

/// Missing permissions that a refusal names.
const NAMED_MAX: usize = 3;

/// Whether any of it changes who may do what.
pub fn decides_access(intents: &[Intent]) -> bool {
    intents.iter().any(|it| [ROLE, ROLE_BINDING].contains(&it.kind()))
}

impl Writer {
    /// Brings the policy up to date, if a write is judged by it.
    pub(super) async fn prove_roles(&self, intents: &[Intent]) -> Result<(), Refusal> {
        if !self.roles.is_on() || !decides_access(intents) {
            return Ok(());
        }
        self.reader.barrier.pass().await?;
        self.refresh_roles().await
    }

    pub(super) async fn refresh_roles(&self) -> Result<(), Refusal> {
        let roles = self.roles.clone();
        let refreshed = blocking(move || roles.refresh()).await?;
        refreshed.map_err(|failure| self.reader.read_failure(failure))
    }

    /// Refuses a role or binding that gives more than its writer has. What that stands on has to stay as it was read.
    /// `beside` is what the same request writes before it.
    pub(super) async fn giving(
        &self,
        options: &Options,
        before: Option<&Object>,
        outcome: &Outcome,
        beside: &[Written],
    ) -> Result<Option<Change>, Refusal> {
        let Outcome::Put(object) = outcome else { return Ok(None) };
        let role = object.kind == ROLE;
        if !role && object.kind != ROLE_BINDING {
            return Ok(None);
        }
        if role && before.is_none() && builtin_roles().iter().any(|it| it.name == object.metadata.name) {
            let text = "is the name of a role that is always there; take another one";
            return Err(Refusal::invalid(".metadata.name", text));
        }
        if !self.roles.is_on() || before.is_some_and(|it| it.spec == object.spec) {
            return Ok(None);
        }
        if role {
            self.judge(options, &rules(object), &[])?;
            return Ok(None);
        }
        let Ok(binding) = serde_json::from_value::<RoleBindingSpec>(object.spec.clone()) else {
            return Ok(None);
        };
        if let Some(role) = builtin_roles().into_iter().find(|it| it.name == binding.role) {
            self.judge(options, &role.rules, &binding.namespaces)?;
            return Ok(None);
        }
        if let Some(role) = beside.iter().find_map(|it| made(it, &binding.role)) {
            self.judge(options, &rules(role), &binding.namespaces)?;
            return Ok(None);
        }
        let key = ObjectName { kind: ROLE, namespace: "", name: &binding.role }.key();
        let found = self.stored(key.clone()).await?;
        match &found {
            Some(role) => self.judge(options, &rules(role), &binding.namespaces)?,
            // One that is not there yet may come to give anything, by whoever makes it, to whoever is bound to it already.
            None => self.judge_any(options, &binding.role)?,
        }
        let read_at = Revision::new(found.map_or(0, |it| it.metadata.revision));
        Ok(Some(Change { key, read_at, op: None }))
    }

    fn judge(&self, options: &Options, rules: &[Rule], namespaces: &[String]) -> Result<(), Refusal> {
        let missing = self.roles.missing(&options.principal, rules, namespaces);
        if missing.is_empty() {
            return Ok(());
        }
        let named = |it: &Permission| format!("{} {}", it.verb, it.kind);
        let named: Vec<_> = missing.iter().take(NAMED_MAX).map(named).collect();
        let more = match missing.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let text = format!(
            "{} may not give away what they do not have themselves: {}{more}; ask somebody who has it",
            options.principal,
            named.join(", ")
        );
        Err(Refusal::new(Reason::Forbidden, text))
    }

    /// Whether somebody may give away whatever there is.
    fn judge_any(&self, options: &Options, role: &str) -> Result<(), Refusal> {
        let texts = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect();
        let anything = [Rule { verbs: texts(&["*"]), kinds: texts(&["*", "*/exec"]), names: Vec::new() }];
        if self.roles.missing(&options.principal, &anything, &[]).is_empty() {
            return Ok(());
        }
        let text = format!(
            "{} may not bind the Role {role}, which does not exist and could come to allow anything; make it first",
            options.principal
        );
        Err(Refusal::new(Reason::Forbidden, text))
    }
}

/// The role of this name, if that is what the same request wrote before.
fn made<'w>(written: &'w Written, name: &str) -> Option<&'w Object> {
    match &written.outcome {
        Outcome::Put(object) if object.kind == ROLE && object.metadata.name == name => Some(object),
        _ => None,
    }
}

fn rules(role: &Object) -> Vec<Rule> {
    let spec = serde_json::from_value::<RoleSpec>(role.spec.clone()).unwrap_or_default();
    spec.rules.into_iter().map(|it| Rule { verbs: it.verbs, kinds: it.kinds, names: it.names }).collect()
}
