//! An object has the fields this manager wants, and this manager decides them.

use setpoint_client::{Api, Parts, Writable, WriteOptions};
use setpoint_types::ObjectKey;
use setpoint_types::object::Object;

use super::applied::is_applied;
use super::{Done, EnsureError, Ensured};

/// Server-side apply by the client's manager, unless what was seen shows that it would change nothing.
///
/// Nothing is asked if `seen` has every field of `wanted` with its value, and its managed fields say that this manager applied exactly
/// these fields: no more, or some would have to be given up. That is decided for objects, maps, lists that are one value, and sets
/// of plain values. With a list whose items are merged by key, only the server can tell, and is asked.
///
/// `force` takes fields from others. Without it, [`EnsureError::FieldsTaken`] names who decides what, and nothing was changed.
///
/// **Guarantees**: afterwards the object has these fields, or an error says why not; run again, it changes nothing.
/// **Assumes** that the client has a manager. **Does not promise** to tell an object that was made from one that was changed: both are
/// [`Done::Changed`]; nor to notice, by what was seen, what happened after it.
pub async fn ensure_applied<K: Writable>(
    api: &Api<K>,
    seen: Option<&K::Object>,
    wanted: &K::Object,
    force: bool,
) -> Result<Ensured<K::Object>, EnsureError> {
    let metadata = K::metadata(wanted);
    let key = ObjectKey::new(api.kind(), &metadata.namespace, &metadata.name);
    let manager = api.client().manager();
    if manager.is_empty() {
        let problem = "the client has no manager: say whose decision it is with `Client::with_manager`";
        return Err(EnsureError::Senseless { object: key, problem });
    }
    if let Some(seen) = seen {
        let (seen, wanted) = (as_json::<K>(api, seen)?, as_json::<K>(api, wanted)?);
        if is_applied(&seen, &wanted, manager) {
            return Ok(Ensured::unchanged(seen.metadata.revision));
        }
    }
    match api.apply(wanted, force, &WriteOptions::default()).await {
        Ok(written) => {
            let done = if written.changed { Done::Changed } else { Done::Unchanged };
            Ok(Ensured { done, revision: written.revision, object: Some(written.object) })
        }
        Err(error) => match error.refusal().map(|it| it.conflicts).filter(|it| !it.is_empty()) {
            Some(conflicts) => Err(EnsureError::FieldsTaken { object: key, conflicts }),
            None => Err(error.into()),
        },
    }
}

/// An object of any shape, as JSON.
pub(super) fn as_json<K: Writable>(api: &Api<K>, object: &K::Object) -> Result<Object, EnsureError> {
    let parts: Parts = K::write(api.kind(), object);
    let key = parts.key();
    parts.into_object().map_err(|problem| EnsureError::Unreadable { object: key, problem })
}
