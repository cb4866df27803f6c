//! What a kind's own rules say about the result of a write.

use serde_json::{Value, json};
use setpoint_admission::kind::{TakenNames, check_change};
use setpoint_admission::path::Path;
use setpoint_admission::{Budget, CustomKind, Policy};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_objects::{Metadata, Object, Topology};
use setpoint_types as types;
use setpoint_types::kinds::KindDefinitionSpec;

use crate::objects::catalog::{Kind, Rules};
use crate::objects::definitions::{ADMISSION_POLICY, KIND_DEFINITION};
use crate::objects::error::Refusal;

/// How many problems a refusal lists: it has to fit into the trailers of a response.
const PROBLEMS_MAX: usize = 32;

/// Refuses what the kind does not allow, with everything that is wrong.
pub fn admit(
    kind: &Kind,
    before: Option<&Object>,
    object: &Object,
    taken: &TakenNames,
    budget: &mut Budget,
) -> Result<(), Refusal> {
    let problems = problems(kind, before, object, taken, budget);
    if problems.is_empty() { Ok(()) } else { Err(invalid(problems)) }
}

/// Everything that the kind does not allow.
pub fn problems(
    kind: &Kind,
    before: Option<&Object>,
    object: &Object,
    taken: &TakenNames,
    budget: &mut Budget,
) -> Vec<types::FieldProblem> {
    match &kind.rules {
        Rules::BuiltIn(rules) => {
            let mut problems = rules.validate_parts(before.map(parts), parts(object));
            if problems.is_empty() {
                problems = defined(before, object, taken);
            }
            problems
        }
        Rules::Custom(rules) => {
            let mut found = types::Problems::new();
            let old = before.map(|before| checked(&before.metadata));
            let new = checked(&object.metadata);
            types::object::check_metadata(kind.info.namespaced, old, new, &mut found);
            let mut problems = found.into_found();
            problems.extend(rules.validate(before.map(json_of).as_ref(), &json_of(object), budget));
            problems
        }
        Rules::None => Vec::new(),
    }
}

/// The same for an object that the server itself makes, of a built-in kind that defines nothing.
pub fn admit_own(kind: &Kind, object: &Object) -> Result<(), Refusal> {
    let Rules::BuiltIn(rules) = &kind.rules else { return Ok(()) };
    let problems = rules.validate_parts(None, parts(object));
    if problems.is_empty() { Ok(()) } else { Err(invalid(problems)) }
}

/// What is wrong with a definition that has the right shape.
fn defined(before: Option<&Object>, object: &Object, taken: &TakenNames) -> Vec<types::FieldProblem> {
    match object.kind.as_str() {
        KIND_DEFINITION => {
            let Ok(spec) = serde_json::from_value::<KindDefinitionSpec>(object.spec.clone()) else {
                return vec![types::FieldProblem::new(".spec", "cannot be read")];
            };
            let mut problems = match CustomKind::compile(&spec, taken) {
                // Without its shape nothing of the kind could be defaulted or merged.
                Ok(kind) => Topology::of_kind(kind.schema()).err().unwrap_or_default(),
                Err(problems) => problems,
            };
            let old =
                before.and_then(|it| serde_json::from_value::<KindDefinitionSpec>(it.spec.clone()).ok());
            if let Some(old) = old {
                problems.extend(check_change(&old, &spec, &Path::root().field("spec")));
            }
            problems
        }
        ADMISSION_POLICY => match serde_json::from_value(object.spec.clone()) {
            Ok(spec) => Policy::compile(&object.metadata.name, &spec).err().unwrap_or_default(),
            Err(_) => vec![types::FieldProblem::new(".spec", "cannot be read")],
        },
        _ => Vec::new(),
    }
}

/// The object as expressions see it.
pub fn json_of(object: &Object) -> Value {
    let mut json = json!({
        "kind": object.kind,
        "metadata": setpoint_objects::metadata::to_json(&object.metadata),
        "spec": object.spec,
    });
    if !object.status.is_null() {
        json["status"] = object.status.clone();
    }
    json
}

pub fn invalid(problems: Vec<types::FieldProblem>) -> Refusal {
    let sentence = |it: &types::FieldProblem| format!("{} {}", it.path, it.message).trim_start().to_owned();
    let first = problems.first().map(sentence).unwrap_or_default();
    let message = match problems.len() {
        0 | 1 => first,
        many => format!("{first}; and {} more", many - 1),
    };
    let mut refusal = Refusal::new(Reason::Invalid, message);
    let wire = |it: types::FieldProblem| pb::FieldProblem { path: it.path, message: it.message };
    refusal.error_mut().problems = problems.into_iter().take(PROBLEMS_MAX).map(wire).collect();
    refusal
}

/// The object as the kinds' types know it. It stays where it is: every write is checked.
fn parts(object: &Object) -> types::Parts<'_> {
    types::Parts { metadata: checked(&object.metadata), spec: &object.spec, status: &object.status }
}

fn checked(metadata: &Metadata) -> types::object::Checked<'_> {
    types::object::Checked {
        namespace: &metadata.namespace,
        name: &metadata.name,
        generate_name: &metadata.generate_name,
        uid: &metadata.uid,
        deleted: metadata.deleted_ms.map(types::Timestamp),
        labels: &metadata.labels,
        annotations: &metadata.annotations,
    }
}
