//! Which writes a policy is about, as far as no expression is needed to tell.

use serde_json::Value;
use setpoint_types::selector::LabelSelector;

use super::definition::MatchSpec;
use super::review::{Operation, Review};
use crate::path::Path;
use crate::problem::FieldProblem;

/// The kind of policies. None applies to them.
const POLICY_KIND: &str = "AdmissionPolicy";

const EVERY_KIND: &str = "*";

/// A match, checked.
#[derive(Debug)]
pub struct Matcher {
    kinds: Vec<String>,
    operations: Vec<Operation>,
    namespaces: Vec<String>,
    except_namespaces: Vec<String>,
    labels: LabelSelector,
}

impl Matcher {
    pub fn new(spec: &MatchSpec, at: &Path) -> Result<Self, Vec<FieldProblem>> {
        let mut problems = Vec::new();
        if spec.kinds.is_empty() {
            problems.push(FieldProblem::new(at.clone().field("kinds"), "must name a kind, or \"*\""));
        }
        if spec.kinds.iter().any(|kind| kind == POLICY_KIND) {
            problems.push(FieldProblem::new(at.clone().field("kinds"), "policies do not apply to policies"));
        }
        let labels = LabelSelector::parse(&spec.label_selector).map_err(|error| {
            problems.push(FieldProblem::new(at.clone().field("labelSelector"), error.to_string()));
        });
        match labels {
            Ok(labels) if problems.is_empty() => Ok(Self {
                kinds: spec.kinds.clone(),
                operations: spec.operations.clone(),
                namespaces: spec.namespaces.clone(),
                except_namespaces: spec.except_namespaces.clone(),
                labels,
            }),
            _ => Err(problems),
        }
    }

    pub fn fits(&self, review: &Review<'_>) -> bool {
        let request = &review.request;
        let names = |names: &[String], name: &str| names.iter().any(|one| one == name);
        request.kind != POLICY_KIND
            && (names(&self.kinds, request.kind) || names(&self.kinds, EVERY_KIND))
            && (self.operations.is_empty() || self.operations.contains(&request.operation))
            && (self.namespaces.is_empty() || names(&self.namespaces, request.namespace))
            && !names(&self.except_namespaces, request.namespace)
            && self.fits_labels(review)
    }

    /// Before or after the change: else a policy could be left by dropping a label.
    fn fits_labels(&self, review: &Review<'_>) -> bool {
        let fits = |object: &Value| {
            let labels = object.get("metadata").and_then(|metadata| metadata.get("labels"));
            self.labels.matches_with(|key| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str))
        };
        self.labels.is_everything() || review.object.is_some_and(fits) || review.old_object.is_some_and(fits)
    }
}
