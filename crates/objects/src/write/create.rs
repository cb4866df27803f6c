//! Create: an object that is not there yet.

use super::draft::{Draft, Settled, fill_silently, own_all, settle_fields};
use super::{Context, Incoming, Kind, check_no_conditions, described, key::settle_key};
use crate::managed::Writer;
use crate::object::{Metadata, Object, Operation, Subresource};
use crate::refusal::{Reason, Refusal};

/// What the caller draws for a new object.
#[derive(Clone, Copy, Debug)]
pub struct Fresh<'a> {
    pub uid: &'a str,
    /// Completes `generate_name`.
    pub suffix: &'a str,
}

/// Creates an object. `stored` is what has its key already.
pub fn create<'a>(
    kind: &Kind<'a>,
    stored: Option<&Object>,
    incoming: Incoming,
    fresh: Fresh<'_>,
    context: &Context<'a>,
) -> Result<Draft<'a>, Refusal> {
    let manager = context.manager()?;
    let mut object = incoming.object;
    settle_key(kind, &mut object.metadata, fresh.suffix)?;
    if let Some(stored) = stored {
        return Err(already_exists(stored));
    }
    check_no_conditions(kind, &object.metadata)?;
    object.kind = kind.name.to_owned();
    object.status = serde_json::Value::Null;
    object.metadata = new_metadata(object.metadata, fresh.uid, context.time_ms);
    let Settled { warnings, found } =
        settle_fields(kind, &mut object, Subresource::Main, incoming.repeated, context.validation);
    // Before defaults are filled in: nobody has decided those.
    let writer = Writer {
        manager,
        operation: Operation::Update,
        subresource: Subresource::Main,
        time_ms: context.time_ms,
    };
    own_all(kind, &mut object, &writer);
    fill_silently(kind, &mut object, Subresource::Main)?;
    Ok(Draft {
        kind: *kind,
        before: None,
        object,
        subresource: Subresource::Main,
        warnings,
        found,
        taken: Vec::new(),
        owners: context.owners,
        manager,
        time_ms: context.time_ms,
    })
}

pub(super) fn new_metadata(given: Metadata, uid: &str, time_ms: u64) -> Metadata {
    Metadata {
        uid: uid.to_owned(),
        revision: 0,
        generation: 1,
        created_ms: time_ms,
        deleted_ms: None,
        managed_fields: Vec::new(),
        ..given
    }
}

fn already_exists(stored: &Object) -> Refusal {
    let object = described(&stored.kind, &stored.metadata);
    let message = if stored.metadata.deleted_ms.is_some() {
        format!("{object} is still there, being deleted. Wait until it is gone, or take another name.")
    } else {
        format!("{object} already exists. Use Apply or Update to change it, or take another name.")
    };
    Refusal::new(Reason::AlreadyExists, message).at_revision(stored.metadata.revision)
}
