//! An object: kind, metadata, spec and status.
//!
//! Spec and status are JSON here, because the server stores kinds it was not compiled with. Whoever knows the kind reads
//! them as its types with `spec` and `status`.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Metadata, ObjectKey, ObjectReference, OwnerReference};
use crate::FieldProblem;

/// One object of any kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Object {
    /// "Workload", "Node", or a kind of a user's own.
    pub kind: String,
    #[serde(default)]
    pub metadata: Metadata,
    /// What is wanted. Null if there is none.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub spec: Value,
    /// What is. Null if nobody has written it yet.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub status: Value,
}

impl Object {
    pub fn new(kind: impl Into<String>, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        let metadata = Metadata { namespace: namespace.into(), name: name.into(), ..Metadata::default() };
        Self { kind: kind.into(), metadata, spec: Value::Null, status: Value::Null }
    }

    #[must_use]
    pub fn with_spec<T: Serialize>(mut self, spec: &T) -> Self {
        self.spec = to_json(spec);
        self
    }

    #[must_use]
    pub fn with_status<T: Serialize>(mut self, status: &T) -> Self {
        self.status = to_json(status);
        self
    }

    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.kind, &self.metadata.namespace, &self.metadata.name)
    }

    /// This object and no later one of its name.
    pub fn reference(&self) -> ObjectReference {
        ObjectReference {
            kind: self.kind.clone(),
            namespace: self.metadata.namespace.clone(),
            name: self.metadata.name.clone(),
            uid: self.metadata.uid.clone(),
        }
    }

    /// This object as the one owner that controls another, which blocks its foreground deletion.
    pub fn as_controller(&self) -> OwnerReference {
        OwnerReference {
            kind: self.kind.clone(),
            name: self.metadata.name.clone(),
            uid: self.metadata.uid.clone(),
            controller: true,
            block_owner_deletion: true,
        }
    }

    /// The spec as the type of its kind. An object without one is read as `{}`.
    pub fn spec<T: DeserializeOwned>(&self) -> Result<T, FieldProblem> {
        read(".spec", &self.spec)
    }

    /// The status as the type of its kind. An object without one is read as `{}`.
    pub fn status<T: DeserializeOwned>(&self) -> Result<T, FieldProblem> {
        read(".status", &self.status)
    }
}

/// JSON as a type; nothing at all is read as `{}`.
pub(crate) fn read<T: DeserializeOwned>(path: &str, value: &Value) -> Result<T, FieldProblem> {
    let read = match value {
        Value::Null => T::deserialize(Value::Object(serde_json::Map::new())),
        _ => T::deserialize(value),
    };
    read.map_err(|error| FieldProblem::new(path, error.to_string()))
}

/// A spec or status as JSON, without the fields that say nothing: nulls, empty lists, maps and objects.
///
/// In all built-in kinds an empty list or map means the same as none. Leaving them out keeps objects small and keeps a
/// writer from owning fields it has no opinion on.
pub fn to_json<T: Serialize>(value: &T) -> Value {
    let mut json = serde_json::to_value(value)
        .expect("types of kinds have text keys and no failing conversion, so they are always JSON");
    prune(&mut json);
    json
}

/// Takes away fields that say nothing: nulls, empty lists, maps and objects.
pub(crate) fn prune(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(prune);
            fields.retain(|_, field| !says_nothing(field));
        }
        Value::Array(elements) => elements.iter_mut().for_each(prune),
        _ => {}
    }
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(elements) => elements.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Generation, Revision, Timestamp, Uid};

    #[derive(Default, Serialize, Deserialize, PartialEq, Debug)]
    #[serde(default)]
    struct Spec {
        size: u32,
        names: Vec<String>,
        inner: Option<Box<Spec>>,
    }

    #[test]
    fn an_object_is_camel_case_json_without_what_says_nothing() {
        let mut object =
            Object::new("Workload", "default", "web").with_spec(&Spec { size: 3, ..Spec::default() });
        object.metadata.uid = Uid::new("u1");
        object.metadata.revision = Revision::new(7);
        object.metadata.generation = Generation(2);
        object.metadata.created = Timestamp(5);
        object.metadata.owners.push(Object::new("Set", "default", "s").as_controller());
        let json = json!({
            "kind": "Workload",
            "metadata": {
                "namespace": "default", "name": "web", "uid": "u1", "revision": 7, "generation": 2, "createdMs": 5,
                "owners": [{"kind": "Set", "name": "s", "uid": "", "controller": true, "blockOwnerDeletion": true}],
            },
            "spec": {"size": 3},
        });
        assert_eq!(serde_json::to_value(&object).unwrap(), json);
        assert_eq!(serde_json::from_value::<Object>(json).unwrap(), object);
    }

    #[test]
    fn a_missing_spec_is_read_as_an_empty_one() {
        let object = Object::new("Workload", "default", "web");
        assert_eq!(object.spec::<Spec>(), Ok(Spec::default()));
        assert_eq!(object.status::<Spec>(), Ok(Spec::default()));
    }

    #[test]
    fn a_spec_of_the_wrong_shape_is_a_problem_of_the_field() {
        let mut object = Object::new("Workload", "default", "web");
        object.spec = json!({"size": "three"});
        assert_eq!(object.spec::<Spec>().unwrap_err().path, ".spec");
    }

    #[test]
    fn pruning_reaches_into_lists_and_keeps_zero_and_false() {
        let inner = Spec { inner: Some(Box::default()), ..Spec::default() };
        assert_eq!(to_json(&[&inner]), json!([{"size": 0, "inner": {"size": 0}}]));
    }
}
