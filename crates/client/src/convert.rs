//! Between the wire's messages and our words. Every place where they differ is here.

use bytes::Bytes;
use prost::Message;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::managed_fields::Operation as WireOperation;
use setpoint_types::object::{Author, Fence, ManagedFields, OwnerReference, WriteOperation};
use setpoint_types::{Epoch, Generation, Metadata, ObjectKey, Revision, Timestamp, Uid};

use crate::options::ReadAt;
use crate::parts::Parts;
use crate::refusal::FieldConflict;

pub fn key(key: pb::ObjectKey) -> ObjectKey {
    ObjectKey { kind: key.kind, namespace: key.namespace, name: key.name }
}

pub fn wire_key(key: &ObjectKey) -> pb::ObjectKey {
    pb::ObjectKey { kind: key.kind.clone(), namespace: key.namespace.clone(), name: key.name.clone() }
}

pub fn fence(fence: pb::Fence) -> Fence {
    Fence { namespace: fence.namespace, lease: fence.lease, epoch: Epoch(fence.epoch) }
}

pub fn wire_fence(fence: &Fence) -> pb::Fence {
    pb::Fence { namespace: fence.namespace.clone(), lease: fence.lease.clone(), epoch: fence.epoch.0 }
}

pub fn conflict(conflict: pb::FieldConflict) -> FieldConflict {
    FieldConflict { path: conflict.path, manager: conflict.manager, value: conflict.value }
}

pub fn author(author: pb::Author) -> Author {
    let said = |text: String| (!text.is_empty()).then_some(text);
    Author {
        principal: author.principal,
        manager: author.manager,
        operation: said(author.operation),
        fence: author.fence.map(fence),
        trace: said(author.trace),
        time: Timestamp(author.time_ms),
    }
}

/// Out of the encoding that a watch brings. None if it cannot be read.
pub fn author_of(encoded: &Bytes) -> Option<Author> {
    pb::Author::decode(encoded.clone()).ok().map(author)
}

pub fn wire_at(at: ReadAt) -> pb::ReadAt {
    use pb::read_at::At;
    let at = match at {
        ReadAt::Latest => At::Latest(true),
        ReadAt::NotOlderThan(revision) => At::NotOlderThan(revision.get()),
        ReadAt::Exact(revision) => At::Exact(revision.get()),
        ReadAt::Cached => At::Cached(true),
        ReadAt::Time(time) => At::TimeMs(time.0),
    };
    pb::ReadAt { at: Some(at) }
}

pub fn parts(object: pb::Object) -> Parts {
    Parts {
        kind: object.kind,
        metadata: metadata(object.metadata.unwrap_or_default()),
        spec: object.spec,
        status: object.status,
    }
}

pub fn wire_object(parts: Parts) -> pb::Object {
    pb::Object {
        kind: parts.kind,
        metadata: Some(wire_metadata(parts.metadata)),
        spec: parts.spec,
        status: parts.status,
    }
}

pub fn metadata(metadata: pb::Metadata) -> Metadata {
    Metadata {
        namespace: metadata.namespace,
        name: metadata.name,
        generate_name: metadata.generate_name,
        uid: Uid::new(metadata.uid),
        revision: Revision::new(metadata.revision),
        generation: Generation(metadata.generation),
        created: Timestamp(metadata.created_ms),
        deleted: metadata.deleted_ms.map(Timestamp),
        finalizers: metadata.finalizers,
        owners: metadata.owners.into_iter().map(owner).collect(),
        labels: metadata.labels,
        annotations: metadata.annotations,
        managed_fields: metadata.managed_fields.into_iter().map(managed).collect(),
    }
}

fn wire_metadata(metadata: Metadata) -> pb::Metadata {
    pb::Metadata {
        namespace: metadata.namespace,
        name: metadata.name,
        generate_name: metadata.generate_name,
        uid: metadata.uid.as_str().to_owned(),
        revision: metadata.revision.get(),
        generation: metadata.generation.0,
        created_ms: metadata.created.0,
        deleted_ms: metadata.deleted.map(|time| time.0),
        finalizers: metadata.finalizers,
        owners: metadata.owners.into_iter().map(wire_owner).collect(),
        labels: metadata.labels,
        annotations: metadata.annotations,
        // The server's own business; sending it back would only cost.
        managed_fields: Vec::new(),
    }
}

fn owner(owner: pb::OwnerReference) -> OwnerReference {
    OwnerReference {
        kind: owner.kind,
        name: owner.name,
        uid: Uid::new(owner.uid),
        controller: owner.controller,
        block_owner_deletion: owner.block_owner_deletion,
    }
}

fn wire_owner(owner: OwnerReference) -> pb::OwnerReference {
    pb::OwnerReference {
        kind: owner.kind,
        name: owner.name,
        uid: owner.uid.as_str().to_owned(),
        controller: owner.controller,
        block_owner_deletion: owner.block_owner_deletion,
    }
}

fn managed(managed: pb::ManagedFields) -> ManagedFields {
    ManagedFields {
        operation: match managed.operation() {
            WireOperation::Update => WriteOperation::Update,
            WireOperation::Apply => WriteOperation::Apply,
        },
        manager: managed.manager,
        subresource: managed.subresource,
        time: Timestamp(managed.time_ms),
        fields: managed.fields,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_survives_the_way_there_and_back() {
        let sent = Metadata {
            namespace: "default".into(),
            name: "web".into(),
            uid: Uid::new("u"),
            revision: Revision::new(3),
            generation: Generation(2),
            created: Timestamp(5),
            deleted: Some(Timestamp(6)),
            finalizers: vec!["f".into()],
            owners: vec![OwnerReference { kind: "Node".into(), controller: true, ..Default::default() }],
            labels: [("a".to_owned(), "b".to_owned())].into(),
            annotations: [("c".to_owned(), "d".to_owned())].into(),
            ..Default::default()
        };
        assert_eq!(metadata(wire_metadata(sent.clone())), sent);
    }
}
