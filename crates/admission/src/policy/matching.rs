//! Which writes a policy is about, as far as no expression is needed to tell.

use serde_json::Value;
use setpoint_types::FieldProblem;
use setpoint_types::kinds::{AdmissionMatch, AdmissionOperation};

use super::review::Review;
use crate::path::Path;

/// The kind of policies. None applies to them: one that refused everything could not be removed.
const POLICY_KIND: &str = "AdmissionPolicy";

const EVERY_KIND: &str = "*";

/// What is wrong with a match.
pub fn check_match(matches: &AdmissionMatch, at: &Path) -> Vec<FieldProblem> {
    let mut problems = Vec::new();
    let place = at.clone().field("kinds");
    if matches.kinds.is_empty() {
        problems.push(FieldProblem::new(&place, "must name a kind, or \"*\""));
    }
    if matches.kinds.iter().any(|kind| kind == POLICY_KIND) {
        problems.push(FieldProblem::new(&place, "policies do not apply to policies"));
    }
    problems
}

/// Whether a write is among those that are meant.
pub fn fits(matches: &AdmissionMatch, review: &Review<'_>) -> bool {
    let request = &review.request;
    let names = |names: &[String], name: &str| names.iter().any(|one| one == name);
    let operation = match matches.operations.as_slice() {
        [] => request.operation != AdmissionOperation::Delete,
        operations => operations.contains(&request.operation),
    };
    request.kind != POLICY_KIND
        && (names(&matches.kinds, request.kind) || names(&matches.kinds, EVERY_KIND))
        && operation
        && (matches.status || !request.status)
        && (matches.namespaces.is_empty() || names(&matches.namespaces, request.namespace))
        && fits_labels(matches, review)
}

/// Before or after the change: else a policy could be left by dropping a label.
fn fits_labels(matches: &AdmissionMatch, review: &Review<'_>) -> bool {
    let fits = |object: &Value| {
        let labels = object.get("metadata").and_then(|metadata| metadata.get("labels"));
        matches.labels.matches_with(|key| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str))
    };
    matches.labels.is_everything() || review.object.is_some_and(fits) || review.old_object.is_some_and(fits)
}
