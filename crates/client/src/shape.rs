//! What an object is in Rust: of a type of its own ([`Typed`]), of any kind ([`Dynamic`]), or only its metadata ([`Partial`]).

use std::fmt;
use std::marker::PhantomData;

use serde_json::Value;
use setpoint_types::KindType;
use setpoint_types::object::{Object, OwnerReference, to_json};
use setpoint_types::{FieldProblem, Metadata, ObjectKey};

use crate::parts::Parts;

/// How objects are read. Every [`KindType`] is one, whose objects are [`Typed`]; so a kind of your own is a type that
/// implements `KindType`.
///
/// **Assumed** of whoever implements it: `read` is pure, refuses what it cannot understand instead of guessing, and keeps the metadata as
/// it came. Caches read an object again whenever it is asked for, and count on the same result.
pub trait Shape: Sized + Send + Sync + 'static {
    type Object: Send + Sync + 'static;
    /// Spec and status are not even asked for.
    const METADATA_ONLY: bool = false;

    fn read(parts: Parts) -> Result<Self::Object, FieldProblem>;
    fn metadata(object: &Self::Object) -> &Metadata;
}

/// How objects are written. **Assumed** of whoever implements it: what was read and is written unchanged means the same to the server,
/// but for fields that the shape does not know ([`Typed`]).
pub trait Writable: Shape {
    /// `kind` is that of the `Api`, for objects that do not know it themselves.
    fn write(kind: &str, object: &Self::Object) -> Parts;
    fn metadata_mut(object: &mut Self::Object) -> &mut Metadata;
}

/// An object whose kind is known where the program is written.
///
/// **Does not promise** to keep fields its type does not know: what a newer server has in a spec is lost when this one is
/// written back with `update`. Use `apply` or `patch`, which send only what is meant, or [`Dynamic`].
pub struct Typed<K: KindType> {
    pub metadata: Metadata,
    pub spec: K::Spec,
    /// None if nobody has written it yet.
    pub status: Option<K::Status>,
}

impl<K: KindType> Typed<K> {
    /// An object that is to be created.
    pub fn new(name: impl Into<String>, spec: K::Spec) -> Self {
        let metadata = Metadata { name: name.into(), ..Metadata::default() };
        Self { metadata, spec, status: None }
    }

    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.metadata.namespace = namespace.into();
        self
    }

    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(K::INFO.name, &self.metadata.namespace, &self.metadata.name)
    }

    /// This object as the one owner that controls another, which blocks its foreground deletion.
    pub fn as_controller(&self) -> OwnerReference {
        OwnerReference {
            kind: K::INFO.name.to_owned(),
            name: self.metadata.name.clone(),
            uid: self.metadata.uid.clone(),
            controller: true,
            block_owner_deletion: true,
        }
    }
}

impl<K: KindType> Clone for Typed<K>
where
    K::Spec: Clone,
    K::Status: Clone,
{
    fn clone(&self) -> Self {
        Self { metadata: self.metadata.clone(), spec: self.spec.clone(), status: self.status.clone() }
    }
}

impl<K: KindType> PartialEq for Typed<K>
where
    K::Spec: PartialEq,
    K::Status: PartialEq,
{
    fn eq(&self, other: &Self) -> bool {
        self.metadata == other.metadata && self.spec == other.spec && self.status == other.status
    }
}

impl<K: KindType> fmt::Debug for Typed<K>
where
    K::Spec: fmt::Debug,
    K::Status: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(K::INFO.name)
            .field("metadata", &self.metadata)
            .field("spec", &self.spec)
            .field("status", &self.status)
            .finish()
    }
}

impl<K> Shape for K
where
    K: KindType + Send + Sync + 'static,
    K::Spec: Send + Sync,
    K::Status: Send + Sync,
{
    type Object = Typed<K>;

    fn read(parts: Parts) -> Result<Typed<K>, FieldProblem> {
        let (spec, status) = (parts.spec()?, parts.status()?);
        Ok(Typed { metadata: parts.metadata, spec, status })
    }

    fn metadata(object: &Typed<K>) -> &Metadata {
        &object.metadata
    }
}

impl<K> Writable for K
where
    K: KindType + Send + Sync + 'static,
    K::Spec: Send + Sync,
    K::Status: Send + Sync,
{
    fn write(kind: &str, object: &Typed<K>) -> Parts {
        let object = Object {
            kind: kind.to_owned(),
            metadata: object.metadata.clone(),
            spec: to_json(&object.spec),
            status: object.status.as_ref().map_or(Value::Null, to_json),
        };
        Parts::of_object(&object)
    }

    fn metadata_mut(object: &mut Typed<K>) -> &mut Metadata {
        &mut object.metadata
    }
}

/// Objects of a kind that only the running program knows, as JSON. **Guarantees**: no field of spec and status is
/// lost when one is written back.
pub enum Dynamic {}

impl Shape for Dynamic {
    type Object = Object;

    fn read(parts: Parts) -> Result<Object, FieldProblem> {
        parts.into_object()
    }

    fn metadata(object: &Object) -> &Metadata {
        &object.metadata
    }
}

impl Writable for Dynamic {
    fn write(kind: &str, object: &Object) -> Parts {
        Parts { kind: kind.to_owned(), ..Parts::of_object(object) }
    }

    fn metadata_mut(object: &mut Object) -> &mut Metadata {
        &mut object.metadata
    }
}

/// Objects of which only the metadata is wanted. **Guarantees**: spec and status are not even sent. They cannot be written.
pub struct Partial<K>(PhantomData<fn() -> K>);

impl<K: 'static> Shape for Partial<K> {
    type Object = Metadata;
    const METADATA_ONLY: bool = true;

    fn read(parts: Parts) -> Result<Metadata, FieldProblem> {
        Ok(parts.metadata)
    }

    fn metadata(object: &Metadata) -> &Metadata {
        object
    }
}

#[cfg(test)]
mod tests {
    use setpoint_types::kinds::{Node, NodeSpec};

    use super::*;

    #[test]
    fn a_typed_object_is_the_same_after_being_written_and_read() {
        let node = Typed::<Node>::new("a1", NodeSpec { zone: "z1".into(), ..NodeSpec::default() });
        let parts = Node::write("Node", &node);
        assert_eq!(parts.kind, "Node");
        assert_eq!(Node::read(parts.clone()).unwrap(), node);
        assert_eq!(Dynamic::read(parts.clone()).unwrap().spec["zone"], "z1");
        assert_eq!(Partial::<Node>::read(parts).unwrap().name, "a1");
    }

    #[test]
    fn a_spec_of_the_wrong_shape_is_a_problem_of_the_field() {
        let parts = Parts { spec: r#"{"zone": 3}"#.into(), ..Parts::default() };
        assert_eq!(Node::read(parts).unwrap_err().path, ".spec");
    }
}
