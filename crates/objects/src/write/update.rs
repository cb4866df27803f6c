//! Update and UpdateStatus: replace one part of an object that is there.

use super::draft::{
    Draft, Settled, between, fill_defaults, keep_servers_metadata, own, settle_fields, undecided,
};
use super::{Context, Incoming, Kind, check_conditions, key::settle_key, not_found};
use crate::managed::Writer;
use crate::object::{Object, Operation, Subresource};
use crate::refusal::{FieldProblem, Refusal};

/// Replaces everything but the status.
pub fn update<'a>(
    kind: &Kind<'a>,
    stored: Option<&'a Object>,
    incoming: Incoming,
    context: &Context<'a>,
) -> Result<Draft<'a>, Refusal> {
    replace(kind, stored, incoming, Subresource::Main, context)
}

/// Replaces the status and nothing else.
pub fn update_status<'a>(
    kind: &Kind<'a>,
    stored: Option<&'a Object>,
    incoming: Incoming,
    context: &Context<'a>,
) -> Result<Draft<'a>, Refusal> {
    replace(kind, stored, incoming, Subresource::Status, context)
}

pub(super) fn replace<'a>(
    kind: &Kind<'a>,
    stored: Option<&'a Object>,
    incoming: Incoming,
    subresource: Subresource,
    context: &Context<'a>,
) -> Result<Draft<'a>, Refusal> {
    let manager = context.manager()?;
    let mut object = incoming.object;
    settle_key(kind, &mut object.metadata, "")?;
    let before = stored.ok_or_else(|| not_found(kind, &object.metadata))?;
    check_identity(before, &object)?;
    check_conditions(before, &object.metadata.uid, object.metadata.revision)?;
    object.kind.clone_from(&before.kind);
    match subresource {
        Subresource::Main => {
            object.status.clone_from(&before.status);
            keep_servers_metadata(before, &mut object);
        }
        Subresource::Status => {
            object.spec.clone_from(&before.spec);
            object.metadata.clone_from(&before.metadata);
        }
    }
    let Settled { warnings, found } =
        settle_fields(kind, &mut object, subresource, incoming.repeated, context.validation);
    let filled = fill_defaults(kind, &mut object, subresource, before)?;
    let changes = undecided(between(kind, Some(before), &object, subresource), &filled);
    let writer = Writer { manager, operation: Operation::Update, subresource, time_ms: context.time_ms };
    own(&mut object, changes, &writer);
    Ok(Draft {
        kind: *kind,
        before: Some(before),
        object,
        subresource,
        warnings,
        found,
        taken: Vec::new(),
        owners: context.owners,
        manager,
        time_ms: context.time_ms,
    })
}

/// What an object is known by never changes. A request finds its object by it, so only a patch can try.
fn check_identity(before: &Object, object: &Object) -> Result<(), Refusal> {
    let (old, new) = (&before.metadata, &object.metadata);
    let problems: Vec<FieldProblem> = [
        (".kind", &before.kind, &object.kind),
        (".metadata.name", &old.name, &new.name),
        (".metadata.namespace", &old.namespace, &new.namespace),
    ]
    .into_iter()
    .filter(|(path, old, new)| old != new && !(*path == ".kind" && new.is_empty()))
    .map(|(path, old, _)| {
        FieldProblem::new(path, format!("is {old:?} and never changes: create another object instead"))
    })
    .collect();
    if problems.is_empty() { Ok(()) } else { Err(Refusal::invalid(problems)) }
}
