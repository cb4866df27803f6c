//! What a kind's own rules say about the result of a write.

use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_objects::{Metadata, Object};
use setpoint_types as types;

use crate::objects::catalog::{Kind, Rules};
use crate::objects::error::Refusal;

/// How many problems a refusal lists: it has to fit into the trailers of a response.
const PROBLEMS_MAX: usize = 32;

/// Refuses what the kind does not allow, with everything that is wrong.
pub fn admit(kind: &Kind, before: Option<&Object>, object: &Object) -> Result<(), Refusal> {
    let problems = match &kind.rules {
        Rules::BuiltIn(rules) => rules.validate(before.map(typed).as_ref(), &typed(object)),
        Rules::None => Vec::new(),
    };
    if problems.is_empty() { Ok(()) } else { Err(invalid(problems)) }
}

fn invalid(problems: Vec<types::FieldProblem>) -> Refusal {
    let first = problems.first().map(|it| format!("{} {}", it.path, it.message)).unwrap_or_default();
    let message = match problems.len() {
        0 | 1 => first,
        many => format!("{first}; and {} more", many - 1),
    };
    let mut refusal = Refusal::new(Reason::Invalid, message);
    let wire = |it: types::FieldProblem| pb::FieldProblem { path: it.path, message: it.message };
    refusal.error_mut().problems = problems.into_iter().take(PROBLEMS_MAX).map(wire).collect();
    refusal
}

/// The object as the kinds' types know it.
fn typed(object: &Object) -> types::Object {
    types::Object {
        kind: object.kind.clone(),
        metadata: typed_metadata(&object.metadata),
        spec: object.spec.clone(),
        status: object.status.clone(),
    }
}

fn typed_metadata(metadata: &Metadata) -> types::Metadata {
    let owner = |owner: &setpoint_objects::OwnerReference| types::object::OwnerReference {
        kind: owner.kind.clone(),
        name: owner.name.clone(),
        uid: types::Uid::new(&owner.uid),
        controller: owner.controller,
        block_owner_deletion: owner.block_owner_deletion,
    };
    types::Metadata {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        generate_name: metadata.generate_name.clone(),
        uid: types::Uid::new(&metadata.uid),
        revision: types::Revision::new(metadata.revision),
        generation: types::Generation(metadata.generation),
        created: types::Timestamp(metadata.created_ms),
        deleted: metadata.deleted_ms.map(types::Timestamp),
        finalizers: metadata.finalizers.clone(),
        owners: metadata.owners.iter().map(owner).collect(),
        labels: metadata.labels.clone(),
        annotations: metadata.annotations.clone(),
        managed_fields: Vec::new(),
    }
}
