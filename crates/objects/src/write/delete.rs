//! Delete: the object goes, or is marked and waits for its finalizers.

use super::draft::{Outcome, between, own};
use super::{Context, Kind, check_conditions, not_found};
use crate::deletion::{Propagation, order};
use crate::managed::Writer;
use crate::object::{Metadata, Object, Operation, Subresource};
use crate::refusal::Refusal;

/// What may be asked of a deletion.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delete<'a> {
    /// Conditions; empty and 0 are none.
    pub uid: &'a str,
    pub revision: u64,
    pub propagation: Propagation,
}

/// Deletes the object of this key. Once deletion has begun, the first decision stands: asking again changes nothing.
/// What it waits for, [`crate::deletion::blockers`] says.
pub fn delete(
    kind: &Kind<'_>,
    stored: Option<&Object>,
    key: &Metadata,
    request: &Delete<'_>,
    context: &Context<'_>,
) -> Result<Outcome, Refusal> {
    let manager = context.manager()?;
    let before = stored.ok_or_else(|| not_found(kind, key))?;
    check_conditions(before, request.uid, request.revision)?;
    let mut object = before.clone();
    if object.metadata.deleted_ms.is_none() {
        order(&mut object.metadata, request.propagation);
        let changes = between(kind, Some(before), &object, Subresource::Main);
        let writer = Writer {
            manager,
            operation: Operation::Update,
            subresource: Subresource::Main,
            time_ms: context.time_ms,
        };
        own(&mut object, changes, &writer);
    }
    if object.metadata.finalizers.is_empty() {
        return Ok(Outcome::Gone(before.clone()));
    }
    if object.metadata.deleted_ms.is_some() {
        return Ok(Outcome::Unchanged(object));
    }
    object.metadata.deleted_ms = Some(context.time_ms);
    object.metadata.generation = object.metadata.generation.saturating_add(1);
    Ok(Outcome::Put(object))
}
