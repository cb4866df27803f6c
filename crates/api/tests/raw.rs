//! What the server sends without decoding is what clients would have been sent otherwise.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use setpoint_api::raw::{self, Part, RawEvent, RawObject, RawWatchResponse, StateEvents, wire};
use setpoint_api::setpoint::v1;
use setpoint_api::status;
use tonic::Code;

fn object() -> v1::Object {
    let metadata = v1::Metadata {
        namespace: "default".into(),
        name: "web".into(),
        uid: "u".into(),
        generation: 3,
        deleted_ms: Some(0),
        labels: BTreeMap::from([("app".into(), "web".into())]),
        ..Default::default()
    };
    let (spec, status) = (Bytes::from_static(b"{\"replicas\":3}"), Bytes::from_static(b"{}"));
    v1::Object { kind: "Workload".into(), metadata: Some(metadata), spec, status }
}

fn with_revision(mut object: v1::Object, revision: u64) -> v1::Object {
    object.metadata.get_or_insert_default().revision = revision;
    object
}

fn stored() -> Bytes {
    object().encode_to_vec().into()
}

#[test]
fn stored_bytes_and_a_revision_are_an_ordinary_object() {
    for revision in [0, 1, 127, 128, u64::MAX] {
        let raw = RawObject::new(stored(), revision);
        let sent = raw.encode_to_vec();
        assert_eq!(sent.len(), raw.encoded_len());
        assert_eq!(v1::Object::decode(&sent[..]).unwrap(), with_revision(object(), revision));
    }
    let answer = raw::v1::GetResponse { object: Some(RawObject::new(stored(), 7)), revision: 9 };
    let read = v1::GetResponse::decode(&answer.encode_to_vec()[..]).unwrap();
    assert_eq!(read, v1::GetResponse { object: Some(with_revision(object(), 7)), revision: 9 });
}

#[test]
fn the_metadata_alone_is_cut_out_without_decoding() {
    let raw = RawObject::of(stored(), 7, Part::Metadata);
    let expected = v1::Object { spec: Bytes::new(), status: Bytes::new(), ..with_revision(object(), 7) };
    assert_eq!(v1::Object::decode(&raw.encode_to_vec()[..]).unwrap(), expected);
    let garbage = Bytes::from_static(b"\xff\xff\xff");
    assert_eq!(RawObject::of(garbage.clone(), 7, Part::Metadata).stored, garbage);
}

#[test]
fn a_raw_object_that_is_read_holds_what_was_read() {
    let raw = RawObject::decode(&stored()[..]).unwrap();
    assert_eq!(raw, RawObject::new(stored(), 0));
    assert!(RawObject::decode(&stored()[..20]).is_err());
}

fn event(kind: v1::watch_event::Type, object: Option<RawObject>) -> raw::v1::WatchEvent {
    use raw::v1::watch_event::Type;
    raw::v1::WatchEvent {
        r#type: Type::try_from(i32::from(kind)).expect("the same numbers").into(),
        object,
        revision: 9,
        initial_state_end: kind == v1::watch_event::Type::Bookmark,
        author: Some(v1::Author { principal: "user:jane".into(), ..Default::default() }),
        error: None,
    }
}

#[test]
fn an_event_is_the_same_whether_shared_or_ordinary() {
    use v1::watch_event::Type;
    let modified = event(Type::Modified, Some(RawObject::new(stored(), 9)));
    let bookmark = event(Type::Bookmark, None);
    let response = RawWatchResponse {
        events: vec![Arc::new(RawEvent::new(modified)), Arc::new(RawEvent::new(bookmark))],
    };
    let sent = response.encode_to_vec();
    assert_eq!(sent.len(), response.encoded_len());
    let read = v1::WatchResponse::decode(&sent[..]).unwrap();
    assert_eq!(read.events.len(), 2);
    assert_eq!(read.events[0].r#type(), Type::Modified);
    assert_eq!(read.events[0].object, Some(with_revision(object(), 9)));
    assert_eq!((read.events[0].revision, read.events[1].revision), (9, 9));
    assert_eq!(read.events[0].author.as_ref().unwrap().principal, "user:jane");
    assert!(read.events[1].initial_state_end);
}

#[test]
fn the_objects_of_a_state_are_ordinary_events() {
    use v1::watch_event::Type;
    let mut state = StateEvents::with_capacity(10);
    state.push(&stored(), 7);
    state.push(&stored(), 300);
    let response = RawWatchResponse { events: vec![Arc::new(state.into_events())] };
    let read = v1::WatchResponse::decode(&response.encode_to_vec()[..]).unwrap();
    let added = |revision| v1::WatchEvent {
        r#type: Type::Added.into(),
        object: Some(with_revision(object(), revision)),
        revision,
        ..Default::default()
    };
    assert_eq!(read.events, [added(7), added(300)]);
}

#[test]
fn a_walk_ends_at_whatever_is_no_field() {
    let read = |bytes: &'static [u8]| wire::fields(&Bytes::from_static(bytes)).collect::<Vec<_>>();
    assert_eq!(read(&[]), []);
    for bad in [&[0x0a, 5, 1][..], &[0x80], &[0x00, 1], &[0x0b], &[0x0d, 1, 2], &[0x08, 0xff], &[0x09; 8]] {
        assert_eq!(read(bad), [Err(wire::Malformed)], "{bad:?}");
    }
    let too_long = &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
    assert_eq!(read(too_long), [Err(wire::Malformed)]);
}

#[test]
fn a_refusal_carries_its_error_and_gives_it_back() {
    let error = v1::Error {
        reason: v1::Reason::Expired.into(),
        message: "gone".into(),
        revision: 7,
        ..Default::default()
    };
    let refused = status::refused(Code::OutOfRange, &error);
    assert_eq!((refused.code(), refused.message()), (Code::OutOfRange, "gone"));
    assert_eq!(status::error_of(&refused), Some(error));
    assert_eq!(status::error_of(&tonic::Status::internal("no")), None);
}
