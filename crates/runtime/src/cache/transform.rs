//! Making objects smaller before they are kept.

use std::fmt;
use std::sync::Arc;

use setpoint_client::Parts;
use setpoint_types::{FieldProblem, Metadata};

use super::entry::Entry;

/// Changes every object before it is kept, usually to leave out what nobody reads: a cache of whole objects is most of a
/// controller's memory.
///
/// **Assumes** that the function depends on nothing but the object. Kind, namespace, name, uid and revision stay what they were,
/// whatever it does. **Costs** decoding and encoding of every object that comes in.
///
/// **Do not write back** what was read from such a cache with `update`: what was left out would be removed.
#[derive(Clone)]
pub struct Transform {
    name: &'static str,
    change: Arc<dyn Fn(&mut Parts) + Send + Sync>,
}

impl Transform {
    /// Two transformations of one name must be the same function: caches of the same kind with the same name are shared.
    pub fn new(name: &'static str, change: impl Fn(&mut Parts) + Send + Sync + 'static) -> Self {
        Self { name, change: Arc::new(change) }
    }

    /// Leaves out who decided which field, which is often a third of an object and read by nobody.
    pub fn without_managed_fields() -> Self {
        Self::new("without-managed-fields", |parts| parts.metadata.managed_fields.clear())
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn apply(&self, entry: &Entry) -> Result<Entry, FieldProblem> {
        let mut parts = entry.parts()?;
        // Not all of the metadata: most of it is what is to be left out.
        let (kind, revision) = (parts.kind.clone(), parts.metadata.revision);
        let Metadata { namespace, name, uid, .. } = &parts.metadata;
        let (namespace, name, uid) = (namespace.clone(), name.clone(), uid.clone());
        (self.change)(&mut parts);
        parts.kind = kind;
        parts.metadata = Metadata { namespace, name, uid, revision, ..parts.metadata };
        Ok(Entry::new(entry.key().clone(), entry.revision(), parts.encode()[..].into()))
    }
}

impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transform({})", self.name)
    }
}
