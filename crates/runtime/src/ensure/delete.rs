//! An object goes: this one, and no later one of its name.

use setpoint_client::{Api, Blocker, DeleteOptions, Propagation, Shape, WriteOptions};
use setpoint_types::{ObjectKey, Revision};

use super::EnsureError;

/// How an object is deleted. **Guarantees** with either: only the object of the uid that was seen goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    pub propagation: Propagation,
    /// Only as it was seen: where the decision to delete it follows from what is in it. Its uid is always a condition.
    pub unchanged: bool,
}

/// How far a deletion is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gone {
    /// There is no such object any more, and there was none to delete.
    Already,
    /// It went with this call.
    Now { revision: Revision },
    /// It is marked, and goes once others have done their part. None are named where what was seen told already that it is going.
    Waiting { revision: Revision, blockers: Vec<Blocker> },
}

impl Gone {
    pub fn is_gone(&self) -> bool {
        !matches!(self, Self::Waiting { .. })
    }
}

/// The object that was seen is gone, or goes.
///
/// **Guarantees**: another object that has its name by now is left alone, and counts as gone: the one that was meant is. Deletion that
/// has begun is not asked for again. **Does not promise** that an object with finalizers is gone when this returns.
pub async fn ensure_deleted<K: Shape>(
    api: &Api<K>,
    seen: &K::Object,
    how: Deletion,
) -> Result<Gone, EnsureError> {
    let metadata = K::metadata(seen);
    if metadata.uid.is_empty() {
        let object = ObjectKey::new(api.kind(), &metadata.namespace, &metadata.name);
        let problem = "it has no uid: what was never read cannot be told from a later object of its name";
        return Err(EnsureError::Senseless { object, problem });
    }
    if metadata.is_terminating() {
        return Ok(Gone::Waiting { revision: metadata.revision, blockers: Vec::new() });
    }
    let options = DeleteOptions {
        uid: Some(metadata.uid.clone()),
        revision: how.unchanged.then_some(metadata.revision),
        propagation: how.propagation,
        write: WriteOptions::default(),
    };
    match api.delete(&metadata.name, &options).await {
        Ok(deleted) if deleted.gone => Ok(Gone::Now { revision: deleted.revision }),
        Ok(deleted) => Ok(Gone::Waiting { revision: deleted.revision, blockers: deleted.blockers }),
        Err(error) if error.is_not_found() || EnsureError::is_other_uid(&error) => Ok(Gone::Already),
        Err(error) => Err(error.into()),
    }
}
