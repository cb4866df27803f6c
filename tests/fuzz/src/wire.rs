//! Objects that are passed on without being decoded, and what refusals carry.

use bytes::Bytes;
use prost::Message;
use setpoint_api::raw::{Part, RawObject, wire};
use setpoint_api::setpoint::v1;
use setpoint_api::status::{error_of, refused};
use tonic::{Code, Status};

/// Whatever lies in the store as an object is sent as that object, with its revision, whole or without its content.
pub fn raw_object(data: &[u8]) {
    let stored = Bytes::copy_from_slice(data);
    let walked: Result<Vec<_>, _> = wire::fields(&stored).collect();
    if let Ok(fields) = &walked {
        let raw: Vec<u8> = fields.iter().flat_map(|field| field.raw.to_vec()).collect();
        assert_eq!(raw, data, "every byte belongs to a field");
    }
    let Ok(object) = v1::Object::decode(data) else { return };
    let with_revision = |mut object: v1::Object| {
        object.metadata.get_or_insert_default().revision = 7;
        object
    };
    let whole = RawObject::of(stored.clone(), 7, Part::Whole).encode_to_vec();
    assert_eq!(v1::Object::decode(&whole[..]), Ok(with_revision(object.clone())));
    if walked.is_ok() {
        let bare = RawObject::of(stored, 7, Part::Metadata);
        let sent = bare.encode_to_vec();
        assert_eq!(sent.len(), bare.encoded_len());
        let expected = v1::Object { spec: Bytes::new(), status: Bytes::new(), ..object.clone() };
        assert_eq!(v1::Object::decode(&sent[..]), Ok(with_revision(expected)));
    }
    if let Ok(read) = RawObject::decode(data) {
        assert_eq!(v1::Object::decode(&read.encode_to_vec()[..]), Ok(object));
    }
}

/// Details that can be read are those that were sent.
pub fn status_details(data: &[u8]) {
    let status = Status::with_details(Code::Aborted, "", Bytes::copy_from_slice(data));
    if let Some(error) = error_of(&status) {
        assert_eq!(error_of(&refused(Code::Aborted, &error)), Some(error));
    }
}
