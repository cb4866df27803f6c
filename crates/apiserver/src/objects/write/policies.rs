//! What policies make of a write: some change the object, then all judge it.

use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_admission::policy::{Note, Request, Review, Verdict};
use setpoint_admission::{Budget, PolicySet};
use setpoint_objects::write::Draft;
use setpoint_objects::{Object, Subresource};
use setpoint_types::FieldProblem;
use setpoint_types::kinds::AdmissionOperation;

use super::admit::{invalid, json_of};
use super::convert::refused;
use super::options::Options;
use crate::objects::error::Refusal;

/// What policies have to note about a request, until it is known what becomes of it: it may be decided more than once.
#[derive(Clone, Debug, Default)]
pub struct Notes(Arc<Mutex<Vec<Note>>>);

impl Notes {
    /// It is decided anew.
    pub fn forget(&self) {
        self.0.lock().clear();
    }

    pub fn tell(&self, principal: &str) {
        for Note { policy, message } in self.0.lock().drain(..) {
            tracing::info!(policy, message, principal, "a policy notes a write");
        }
    }
}

/// A write, as policies are asked about it.
pub struct Asked<'a> {
    policies: &'a PolicySet,
    options: &'a Options,
    before: Option<&'a Object>,
    /// Of whoever writes. Only filled in if there are policies.
    groups: Vec<String>,
    /// The Namespace it is in; none for what belongs to the whole cluster.
    namespace: Option<&'a Object>,
}

impl<'a> Asked<'a> {
    pub fn new(
        policies: &'a PolicySet,
        options: &'a Options,
        before: Option<&'a Object>,
        namespace: Option<&'a Object>,
    ) -> Self {
        let groups = match policies.is_empty() {
            true => Vec::new(),
            false => options.principal.groups().iter().map(|group| group.to_string()).collect(),
        };
        Self { policies, options, before, groups, namespace }
    }

    /// Lets policies change the object.
    pub fn mutate(&self, draft: &mut Draft<'_>, budget: &mut Budget) -> Result<Vec<String>, Refusal> {
        if self.policies.is_empty() {
            return Ok(Vec::new());
        }
        let (new, old) = (json_of(draft.object()), self.before.map(json_of));
        let namespace = self.namespace.map(json_of);
        let status = draft.subresource() == Subresource::Status;
        let review = Review {
            request: self.request(draft.object(), self.written(), status),
            object: Some(&new),
            old_object: old.as_ref(),
            namespace_object: namespace.as_ref(),
        };
        let mutated = self.policies.mutate(&review, budget);
        let warnings = self.settled(mutated.verdict)?;
        if let Some(changed) = mutated.object {
            let metadata = setpoint_objects::metadata::from_json(&changed["metadata"])
                .map_err(|problems| refused(setpoint_objects::Refusal::invalid(problems)))?;
            let change = |object: &mut Object| {
                object.metadata.labels = metadata.labels;
                object.metadata.annotations = metadata.annotations;
                object.metadata.finalizers = metadata.finalizers;
                object.metadata.owners = metadata.owners;
                object.spec = changed["spec"].clone();
                object.status = changed["status"].clone();
            };
            draft.mutate(&mutated.by, change).map_err(refused)?;
        }
        Ok(warnings)
    }

    /// Asks about the object as it is to be stored; none for a deletion.
    pub fn judge(
        &self,
        object: Option<&Object>,
        status: bool,
        budget: &mut Budget,
    ) -> Result<Vec<String>, Refusal> {
        if self.policies.is_empty() {
            return Ok(Vec::new());
        }
        let Some(named) = object.or(self.before) else { return Ok(Vec::new()) };
        let operation = if object.is_some() { self.written() } else { AdmissionOperation::Delete };
        let (new, old) = (object.map(json_of), self.before.map(json_of));
        let namespace = self.namespace.map(json_of);
        let review = Review {
            request: self.request(named, operation, status),
            object: new.as_ref(),
            old_object: old.as_ref(),
            namespace_object: namespace.as_ref(),
        };
        self.settled(self.policies.judge(&review, budget))
    }

    fn written(&self) -> AdmissionOperation {
        if self.before.is_some() { AdmissionOperation::Update } else { AdmissionOperation::Create }
    }

    fn request<'r>(&'r self, object: &'r Object, operation: AdmissionOperation, status: bool) -> Request<'r> {
        Request {
            operation,
            status,
            user: &self.options.author.principal,
            groups: &self.groups,
            kind: &object.kind,
            namespace: &object.metadata.namespace,
            name: &object.metadata.name,
            dry_run: self.options.dry_run,
        }
    }

    /// Warnings for the client, or the refusal with everything that was denied.
    fn settled(&self, verdict: Verdict) -> Result<Vec<String>, Refusal> {
        self.options.notes.0.lock().extend(verdict.audit);
        if !verdict.denials.is_empty() {
            let problem = |it: setpoint_admission::policy::Denial| {
                FieldProblem::new(
                    it.path.unwrap_or_default(),
                    format!("{} (policy {})", it.message, it.policy),
                )
            };
            return Err(invalid(verdict.denials.into_iter().map(problem).collect()));
        }
        let warning = |it: Note| format!("{} (policy {})", it.message, it.policy);
        Ok(verdict.warnings.into_iter().map(warning).collect())
    }
}
