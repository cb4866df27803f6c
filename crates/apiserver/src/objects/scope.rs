//! Which keys a list or a watch looks at: a kind, a namespace of it, or one object.

use std::sync::Arc;

use setpoint_types::KeyRange;

use super::catalog::Kind;
use super::error::Refusal;
use super::key::{self, ObjectName};
use super::selection::Selection;

#[derive(Clone, Debug)]
pub struct Scope {
    pub kind: Arc<Kind>,
    /// None for all.
    pub namespace: Option<String>,
    pub range: KeyRange,
}

impl Scope {
    /// An empty namespace means all of them.
    pub fn of(kind: Arc<Kind>, namespace: &str, selection: &Selection) -> Result<Self, Refusal> {
        let namespace = match (kind.info.namespaced, namespace) {
            (true, "") => None,
            _ => Some(kind.namespace(namespace)?.to_owned()),
        };
        let range = match (&namespace, selection.only_name()) {
            (Some(namespace), Some(name)) if key::is_part(name) => {
                KeyRange::Single(ObjectName { kind: kind.name(), namespace, name }.key())
            }
            (Some(namespace), _) => key::of_namespace(kind.name(), namespace),
            (None, _) => key::of_kind(kind.name()),
        };
        Ok(Self { kind, namespace, range })
    }

    pub fn is_one_object(&self) -> bool {
        matches!(self.range, KeyRange::Single(_))
    }
}
