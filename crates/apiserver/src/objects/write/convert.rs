//! Objects between the wire, the store and the rules.
//!
//! Stored is the wire's encoding without the revision, which is the key's.

use bytes::Bytes;
use prost::Message;
use serde_json::Value;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_api::setpoint::v1::managed_fields::Operation as WireOperation;
use setpoint_objects as objects;
use setpoint_objects::write::Incoming;
use setpoint_objects::{ManagedFields, Metadata, Object, Operation, OwnerReference, Subresource};
use setpoint_store::KeyValue;

use crate::objects::error::Refusal;
use crate::objects::key::ObjectName;

/// An object as a request carries it.
pub fn incoming(object: pb::Object) -> Result<Incoming, Refusal> {
    let metadata = metadata(object.metadata.unwrap_or_default());
    let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
    let about = ObjectName { kind: &object.kind, namespace: &namespace, name: &name };
    Incoming::decode(&object.kind, metadata, &object.spec, &object.status)
        .map_err(|refusal| refused(refusal).about(about))
}

/// An object as it is stored. None if these bytes are none, which only damage or another program can make them.
pub fn stored(kv: &KeyValue) -> Option<Object> {
    let object = pb::Object::decode(kv.value.clone()).ok()?;
    let json =
        |bytes: &Bytes| if bytes.is_empty() { Some(Value::Null) } else { serde_json::from_slice(bytes).ok() };
    let mut metadata = metadata(object.metadata.unwrap_or_default());
    metadata.revision = kv.modified.get();
    Some(Object { kind: object.kind, metadata, spec: json(&object.spec)?, status: json(&object.status)? })
}

/// As it is to be stored. The object lends its texts to the encoding and has them back, so that none is copied: every write
/// comes by here.
pub fn encoded(object: &mut Object) -> Bytes {
    // Writing into bytes is several times faster than formatting; a value cannot fail to be written.
    let written =
        |value: &Value| serde_json::to_vec(value).unwrap_or_else(|_| value.to_string().into_bytes());
    let json = |value: &Value| if value.is_null() { Bytes::new() } else { written(value).into() };
    let revision = object.metadata.revision;
    let lent = pb::Object {
        kind: std::mem::take(&mut object.kind),
        metadata: Some(wire_metadata(std::mem::take(&mut object.metadata))),
        spec: json(&object.spec),
        status: json(&object.status),
    };
    let encoded = lent.encode_to_vec();
    object.kind = lent.kind;
    object.metadata = Metadata { revision, ..metadata(lent.metadata.unwrap_or_default()) };
    encoded.into()
}

pub fn metadata(metadata: pb::Metadata) -> Metadata {
    Metadata {
        namespace: metadata.namespace,
        name: metadata.name,
        generate_name: metadata.generate_name,
        uid: metadata.uid,
        revision: metadata.revision,
        generation: metadata.generation,
        created_ms: metadata.created_ms,
        deleted_ms: metadata.deleted_ms,
        finalizers: metadata.finalizers,
        owners: metadata.owners.into_iter().map(owner).collect(),
        labels: metadata.labels,
        annotations: metadata.annotations,
        managed_fields: metadata.managed_fields.into_iter().map(managed).collect(),
    }
}

fn owner(owner: pb::OwnerReference) -> OwnerReference {
    OwnerReference {
        kind: owner.kind,
        name: owner.name,
        uid: owner.uid,
        controller: owner.controller,
        block_owner_deletion: owner.block_owner_deletion,
    }
}

fn managed(managed: pb::ManagedFields) -> ManagedFields {
    ManagedFields {
        operation: match managed.operation() {
            WireOperation::Update => Operation::Update,
            WireOperation::Apply => Operation::Apply,
        },
        subresource: if managed.subresource.is_empty() { Subresource::Main } else { Subresource::Status },
        manager: managed.manager,
        time_ms: managed.time_ms,
        fields: managed.fields,
    }
}

/// Without the revision.
pub fn wire_metadata(metadata: Metadata) -> pb::Metadata {
    let owner = |owner: OwnerReference| pb::OwnerReference {
        kind: owner.kind,
        name: owner.name,
        uid: owner.uid,
        controller: owner.controller,
        block_owner_deletion: owner.block_owner_deletion,
    };
    let managed = |managed: ManagedFields| pb::ManagedFields {
        manager: managed.manager,
        operation: match managed.operation {
            Operation::Update => WireOperation::Update,
            Operation::Apply => WireOperation::Apply,
        }
        .into(),
        subresource: managed.subresource.as_str().to_owned(),
        time_ms: managed.time_ms,
        fields: managed.fields,
    };
    pb::Metadata {
        namespace: metadata.namespace,
        name: metadata.name,
        generate_name: metadata.generate_name,
        uid: metadata.uid,
        revision: 0,
        generation: metadata.generation,
        created_ms: metadata.created_ms,
        deleted_ms: metadata.deleted_ms,
        finalizers: metadata.finalizers,
        owners: metadata.owners.into_iter().map(owner).collect(),
        labels: metadata.labels,
        annotations: metadata.annotations,
        managed_fields: metadata.managed_fields.into_iter().map(managed).collect(),
    }
}

/// A refusal of the rules, as clients get it.
pub fn refused(refusal: objects::Refusal) -> Refusal {
    let reason = match refusal.reason {
        objects::Reason::NotFound => Reason::NotFound,
        objects::Reason::AlreadyExists => Reason::AlreadyExists,
        objects::Reason::Conflict => Reason::Conflict,
        objects::Reason::Invalid => Reason::Invalid,
        objects::Reason::TooLarge => Reason::TooLarge,
    };
    let mut made = Refusal::new(reason, refusal.message);
    let error = made.error_mut();
    error.revision = refusal.revision;
    error.problems = refusal.problems.into_iter().map(problem).collect();
    error.conflicts = refusal.conflicts.into_iter().map(conflict).collect();
    made
}

fn problem(problem: objects::FieldProblem) -> pb::FieldProblem {
    pb::FieldProblem { path: problem.path, message: problem.message }
}

pub fn conflict(conflict: objects::FieldConflict) -> pb::FieldConflict {
    pb::FieldConflict { path: conflict.path, manager: conflict.manager, value: conflict.value.to_string() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use setpoint_types::{LeaseId, Revision};

    use super::*;

    #[test]
    fn an_object_that_is_encoded_stays_as_it_is_and_reads_the_same() {
        let metadata = Metadata {
            namespace: "default".to_owned(),
            name: "web".to_owned(),
            generate_name: "w".to_owned(),
            uid: "u1".to_owned(),
            revision: 7,
            generation: 2,
            created_ms: 3,
            deleted_ms: Some(4),
            finalizers: vec!["a/b".to_owned()],
            owners: vec![OwnerReference {
                kind: "Workload".to_owned(),
                name: "web".to_owned(),
                uid: "u0".to_owned(),
                controller: true,
                block_owner_deletion: true,
            }],
            labels: BTreeMap::from([("app".to_owned(), "web".to_owned())]),
            annotations: BTreeMap::from([("note".to_owned(), "n".to_owned())]),
            managed_fields: vec![ManagedFields {
                manager: "ci".to_owned(),
                operation: Operation::Apply,
                subresource: Subresource::Status,
                time_ms: 5,
                fields: vec![".status.a".to_owned()],
            }],
        };
        let spec = serde_json::json!({"replicas": 1});
        let before = Object { kind: "Workload".to_owned(), metadata, spec, status: Value::Null };
        let mut object = before.clone();
        let value = encoded(&mut object);
        assert_eq!(object, before);
        let (key, modified) = (Bytes::from_static(b"k"), Revision::new(7));
        let (created, version, lease) = (modified, 1, LeaseId::NONE);
        assert_eq!(stored(&KeyValue { key, value, created, modified, version, lease }), Some(before));
    }
}
