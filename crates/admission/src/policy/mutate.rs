//! Changes to an object, policy by policy.

use serde_json::Value;
use setpoint_types::kinds::{AdmissionOperation, FailurePolicy};

use super::compiled::Policy;
use super::evaluation::{Evaluation, bindings};
use super::matching::fits;
use super::patch;
use super::review::{Denial, Mutated, Note, Review};
use crate::cel::Budget;

/// What of the metadata a policy may change.
const METADATA: [&str; 4] = ["annotations", "finalizers", "labels", "owners"];

/// Lets `policies` change the object, in this order: each sees what those before it made.
pub fn mutate<'p>(
    policies: impl Iterator<Item = &'p Policy>,
    review: &Review<'_>,
    budget: &mut Budget,
) -> Mutated {
    let mut mutated = Mutated::default();
    let (Some(original), true) = (review.object, review.request.operation != AdmissionOperation::Delete)
    else {
        return mutated;
    };
    let request = review.request.to_json();
    for policy in policies.filter(|policy| !policy.mutations.is_empty()) {
        let before = mutated.object.as_ref().unwrap_or(original);
        let review = Review { object: Some(before), ..review.clone() };
        if !fits(&policy.matches, &review) {
            continue;
        }
        match changed(policy, &review, before, &request, budget) {
            Ok(None) => {}
            Ok(Some(after)) => {
                mutated.object = Some(after);
                mutated.by.push(policy.name.clone());
            }
            Err(problem) => failed(policy, problem, &mut mutated),
        }
    }
    mutated
}

/// What one policy makes of the object, if that is anything else.
fn changed(
    policy: &Policy,
    review: &Review<'_>,
    before: &Value,
    request: &Value,
    budget: &mut Budget,
) -> Result<Option<Value>, String> {
    let mut after: Option<Value> = None;
    for (index, mutation) in policy.mutations.iter().enumerate() {
        let failed = |problem: String| format!("the mutation {index} {problem}");
        let patch = {
            let bindings = bindings(review, Some(after.as_ref().unwrap_or(before)), request);
            let mut evaluation = Evaluation::new(policy, &bindings, budget);
            if index == 0 && !evaluation.applies()? {
                return Ok(None);
            }
            let yielded = evaluation.yields(&mutation.expression);
            yielded.map_err(|error| failed(format!("cannot be evaluated: {error}")))?
        };
        let mut object = after.take().unwrap_or_else(|| before.clone());
        patch::apply(&mut object, mutation.kind, &patch).map_err(failed)?;
        check_kept(before, &object, review.request.status).map_err(failed)?;
        after = Some(object);
    }
    Ok(after.filter(|after| after != before))
}

/// A policy changes what users write, and not what the object is.
fn check_kept(before: &Value, after: &Value, status: bool) -> Result<(), String> {
    let (free, kept) = if status { ("status", "spec") } else { ("spec", "status") };
    let refused = |field: &str| Err(format!("changes {field}, which no policy may"));
    let Some(fields) = after.as_object() else { return refused("the whole object") };
    let is_new = |name: &&String| before.get(name.as_str()).is_none();
    if let Some(name) = fields.keys().filter(is_new).find(|name| ![free, "metadata"].contains(&name.as_str()))
    {
        return refused(&format!(".{name}"));
    }
    for name in ["kind", kept] {
        if before.get(name) != after.get(name) {
            return refused(&format!(".{name}"));
        }
    }
    let names = |object: &Value| -> Vec<String> {
        let fields = object.get("metadata").and_then(Value::as_object);
        fields.map(|fields| fields.keys().cloned().collect()).unwrap_or_default()
    };
    let metadata =
        |object: &Value, name: &str| object.get("metadata").and_then(|metadata| metadata.get(name)).cloned();
    for name in names(before).into_iter().chain(names(after)) {
        let may_change = METADATA.contains(&name.as_str()) && !status;
        if !may_change && metadata(before, &name) != metadata(after, &name) {
            return refused(&format!(".metadata.{name}"));
        }
    }
    Ok(())
}

fn failed(policy: &Policy, message: String, mutated: &mut Mutated) {
    let name = policy.name.clone();
    match policy.failure_policy {
        FailurePolicy::Fail => {
            mutated.verdict.denials.push(Denial { policy: name, message, path: None });
        }
        FailurePolicy::Ignore => mutated.verdict.audit.push(Note { policy: name, message }),
    }
}
