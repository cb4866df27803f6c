//! All policies there are.

use std::sync::Arc;

use setpoint_types::kinds::{AdmissionAction, FailurePolicy};

use super::compiled::{CompiledValidation, Policy};
use super::evaluation::{Evaluation, bindings};
use super::matching;
use super::mutate;
use super::review::{Denial, Mutated, Note, Review, Verdict};
use crate::cel::Budget;

/// Policies in the order they act in: by their number, then by their names.
#[derive(Clone, Debug, Default)]
pub struct PolicySet {
    policies: Vec<Arc<Policy>>,
}

impl PolicySet {
    /// Of policies with different names.
    pub fn new(policies: impl IntoIterator<Item = Arc<Policy>>) -> Self {
        let mut policies: Vec<_> = policies.into_iter().collect();
        policies.sort_by(|a, b| (a.order, &a.name).cmp(&(b.order, &b.name)));
        Self { policies }
    }

    /// Nothing to ask, so that a server without policies pays nothing for them.
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty()
    }

    /// Lets policies change the object.
    pub fn mutate(&self, review: &Review<'_>, budget: &mut Budget) -> Mutated {
        mutate::mutate(self.policies.iter().map(Arc::as_ref), review, budget)
    }

    /// Asks every validation of every policy, and reports all that fail.
    pub fn judge(&self, review: &Review<'_>, budget: &mut Budget) -> Verdict {
        let mut verdict = Verdict::default();
        let fits =
            |policy: &&Arc<Policy>| !policy.validations.is_empty() && matching::fits(&policy.matches, review);
        let mut policies = self.policies.iter().filter(fits).peekable();
        if policies.peek().is_none() {
            return verdict;
        }
        let request = review.request.to_json();
        let bindings = bindings(review, review.object, &request);
        for policy in policies {
            judge_one(policy, Evaluation::new(policy, &bindings, budget), &mut verdict);
        }
        verdict
    }
}

fn judge_one(policy: &Policy, mut evaluation: Evaluation<'_, '_>, verdict: &mut Verdict) {
    match evaluation.applies() {
        Ok(true) => {}
        Ok(false) => return,
        Err(problem) => return unevaluated(policy, None, problem, verdict),
    }
    for validation in &policy.validations {
        match evaluation.is_true(&validation.expression) {
            Ok(true) => {}
            Ok(false) => act(policy, Some(validation), evaluation.message(validation), verdict),
            Err(error) => {
                let problem = format!("{:?} cannot be evaluated: {error}", validation.expression.source());
                unevaluated(policy, Some(validation), problem, verdict);
            }
        }
    }
}

fn unevaluated(
    policy: &Policy,
    validation: Option<&CompiledValidation>,
    problem: String,
    verdict: &mut Verdict,
) {
    match policy.failure_policy {
        FailurePolicy::Fail => act(policy, validation, problem, verdict),
        FailurePolicy::Ignore => verdict.audit.push(Note { policy: policy.name.clone(), message: problem }),
    }
}

fn act(policy: &Policy, validation: Option<&CompiledValidation>, message: String, verdict: &mut Verdict) {
    for action in &policy.actions {
        let (policy, message) = (policy.name.clone(), message.clone());
        match action {
            AdmissionAction::Deny => {
                let path = validation.and_then(|validation| validation.path.clone());
                verdict.denials.push(Denial { policy, message, path });
            }
            AdmissionAction::Warn => verdict.warnings.push(Note { policy, message }),
            AdmissionAction::Audit => verdict.audit.push(Note { policy, message }),
        }
    }
}
