//! An object whose spec and status are still text: what comes over the wire, before anybody knows its kind.

use bytes::Bytes;
use prost::Message;
use serde::de::DeserializeOwned;
use serde_json::Value;
use setpoint_api::setpoint::v1 as pb;
use setpoint_types::object::Object;
use setpoint_types::{FieldProblem, Metadata, ObjectKey};

use crate::convert;

/// Kind, metadata, and JSON that nobody has read yet. Cheap to clone but for the metadata.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts {
    pub kind: String,
    pub metadata: Metadata,
    /// JSON; empty if there is none.
    pub spec: Bytes,
    /// JSON; empty if there is none.
    pub status: Bytes,
}

impl Parts {
    /// Out of an encoded `setpoint.v1.Object`.
    pub fn decode(encoded: Bytes) -> Result<Self, FieldProblem> {
        let object = pb::Object::decode(encoded).map_err(|error| FieldProblem::new("", error.to_string()))?;
        Ok(convert::parts(object))
    }

    /// As a `setpoint.v1.Object`.
    pub fn encode(self) -> Bytes {
        convert::wire_object(self).encode_to_vec().into()
    }

    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.kind, &self.metadata.namespace, &self.metadata.name)
    }

    /// The spec as a type. An object without one is read as `{}`.
    pub fn spec<T: DeserializeOwned>(&self) -> Result<T, FieldProblem> {
        read(".spec", if self.spec.is_empty() { b"{}" } else { &self.spec })
    }

    /// The status as a type, if anybody has written one.
    pub fn status<T: DeserializeOwned>(&self) -> Result<Option<T>, FieldProblem> {
        if self.status.is_empty() { Ok(None) } else { read(".status", &self.status).map(Some) }
    }

    pub fn into_object(self) -> Result<Object, FieldProblem> {
        let json = |path: &str, text: &Bytes| {
            if text.is_empty() { Ok(Value::Null) } else { read(path, text) }
        };
        let (spec, status) = (json(".spec", &self.spec)?, json(".status", &self.status)?);
        Ok(Object { kind: self.kind, metadata: self.metadata, spec, status })
    }

    pub fn of_object(object: &Object) -> Self {
        let text = |json: &Value| if json.is_null() { Bytes::new() } else { json.to_string().into() };
        Self {
            kind: object.kind.clone(),
            metadata: object.metadata.clone(),
            spec: text(&object.spec),
            status: text(&object.status),
        }
    }
}

fn read<T: DeserializeOwned>(path: &str, text: &[u8]) -> Result<T, FieldProblem> {
    serde_json::from_slice(text).map_err(|error| FieldProblem::new(path, error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_survives_its_encoding() {
        let object = Object::new("Widget", "default", "w").with_spec(&json!({"a": [1, 2.5]}));
        let parts = Parts::of_object(&object);
        assert_eq!(Parts::decode(parts.clone().encode()).unwrap(), parts);
        assert_eq!(parts.into_object().unwrap(), object);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        assert!(Parts::decode(Bytes::from_static(&[0xff])).is_err());
        let parts = Parts { spec: "{".into(), status: "1".into(), ..Parts::default() };
        assert_eq!(parts.spec::<Value>().unwrap_err().path, ".spec");
        assert_eq!(parts.status::<String>().unwrap_err().path, ".status");
        assert_eq!(parts.into_object().unwrap_err().path, ".spec");
        assert_eq!(Parts::default().spec::<Value>().unwrap(), json!({}));
        assert_eq!(Parts::default().status::<Value>().unwrap(), None);
    }
}
