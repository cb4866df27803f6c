//! The client's side of a watch: events as they came, without decoding the objects in them.
//!
//! Whoever keeps a hundred thousand objects decodes few of them. So an answer is taken apart only as far as every event
//! needs it: its type, its revision, and where its object and its author lie.

use bytes::{Buf, Bytes};
use prost::encoding::{DecodeContext, WireType, decode_varint, skip_field};
use prost::{DecodeError, Message};

use super::wire::{self, Malformed, Value};
use crate::setpoint::v1::watch_event::Type;
use crate::setpoint::v1::{Author, Error};

/// Numbers of fields, as `objects.proto` and `object.proto` have them.
mod field {
    pub const EVENTS: u32 = 1;
    pub const TYPE: u32 = 1;
    pub const OBJECT: u32 = 2;
    pub const REVISION: u32 = 3;
    pub const INITIAL_STATE_END: u32 = 4;
    pub const AUTHOR: u32 = 5;
    pub const ERROR: u32 = 6;
    pub const METADATA: u32 = 2;
    pub const NAMESPACE: u32 = 1;
    pub const NAME: u32 = 2;
    pub const UID: u32 = 4;
}

/// One answer of a watch: the events in it, each still encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceivedEvents {
    pub events: Vec<Bytes>,
}

impl Message for ReceivedEvents {
    /// On the wire again what it was.
    fn encode_raw(&self, buffer: &mut impl bytes::BufMut) {
        for event in &self.events {
            prost::encoding::encode_key(field::EVENTS, WireType::LengthDelimited, buffer);
            prost::encoding::encode_varint(event.len() as u64, buffer);
            buffer.put_slice(event);
        }
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buffer: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        if tag != field::EVENTS || wire_type != WireType::LengthDelimited {
            return skip_field(wire_type, tag, buffer, context);
        }
        let length = decode_varint(buffer)?;
        if length > buffer.remaining() as u64 {
            // Only prost makes its errors: this is that of reading beyond an end.
            return decode_varint(&mut &b""[..]).map(drop);
        }
        self.events.push(buffer.copy_to_bytes(length as usize));
        Ok(())
    }

    fn encoded_len(&self) -> usize {
        let one = |event: &Bytes| 1 + prost::encoding::encoded_len_varint(event.len() as u64) + event.len();
        self.events.iter().map(one).sum()
    }

    fn clear(&mut self) {
        self.events.clear();
    }
}

/// One event, taken apart. Object, author and error share the memory of the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceivedEvent {
    kind: i32,
    pub revision: u64,
    pub initial_state_end: bool,
    /// The encoded object, as one piece; none if the event has none.
    pub object: Option<Bytes>,
    /// The encoded author.
    pub author: Option<Bytes>,
    error: Option<Bytes>,
}

impl ReceivedEvent {
    pub fn read(event: &Bytes) -> Result<Self, Malformed> {
        let mut read = Self::default();
        for found in wire::fields(event) {
            let found = found?;
            match (found.number, found.value) {
                (field::TYPE, Value::Varint(value)) => read.kind = value as i32,
                (field::REVISION, Value::Varint(value)) => read.revision = value,
                (field::INITIAL_STATE_END, Value::Varint(value)) => read.initial_state_end = value != 0,
                // A message that is there twice is merged; as encodings, that is one behind the other.
                (field::OBJECT, Value::Bytes(bytes)) => read.object = Some(joined(read.object, bytes)),
                (field::AUTHOR, Value::Bytes(bytes)) => read.author = Some(joined(read.author, bytes)),
                (field::ERROR, Value::Bytes(bytes)) => read.error = Some(joined(read.error, bytes)),
                _ => {}
            }
        }
        Ok(read)
    }

    pub fn kind(&self) -> Type {
        Type::try_from(self.kind).unwrap_or(Type::Unspecified)
    }

    pub fn author(&self) -> Result<Option<Author>, DecodeError> {
        self.author.clone().map(Author::decode).transpose()
    }

    /// None if the event is no error.
    pub fn error(&self) -> Result<Option<Error>, DecodeError> {
        self.error.clone().map(Error::decode).transpose()
    }
}

fn joined(first: Option<Bytes>, second: Bytes) -> Bytes {
    match first {
        None => second,
        Some(first) => [first, second].concat().into(),
    }
}

/// What an object is called, read out of its encoding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceivedName {
    pub namespace: Bytes,
    pub name: Bytes,
    pub uid: Bytes,
}

impl ReceivedName {
    pub fn read(object: &Bytes) -> Result<Self, Malformed> {
        let mut read = Self::default();
        for found in wire::fields(object) {
            let found = found?;
            if found.number != field::METADATA {
                continue;
            }
            for part in wire::fields(&found.bytes()?) {
                let part = part?;
                match (part.number, part.value) {
                    (field::NAMESPACE, Value::Bytes(bytes)) => read.namespace = bytes,
                    (field::NAME, Value::Bytes(bytes)) => read.name = bytes,
                    (field::UID, Value::Bytes(bytes)) => read.uid = bytes,
                    _ => {}
                }
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setpoint::v1::{Metadata, Object, WatchEvent, WatchResponse};

    fn event() -> WatchEvent {
        let metadata = Metadata {
            namespace: "default".into(),
            name: "web".into(),
            uid: "u1".into(),
            revision: 7,
            labels: [("a".to_owned(), "b".to_owned())].into(),
            ..Default::default()
        };
        let object = Object {
            kind: "Workload".into(),
            metadata: Some(metadata),
            spec: "{}".into(),
            ..Default::default()
        };
        let author = Author { principal: "user:jane".into(), ..Default::default() };
        WatchEvent {
            r#type: Type::Modified.into(),
            object: Some(object),
            revision: 7,
            author: Some(author),
            ..Default::default()
        }
    }

    #[test]
    fn an_answer_is_taken_apart_without_decoding_its_objects() {
        let sent = WatchResponse { events: vec![event(), event()] };
        let received = ReceivedEvents::decode(sent.encode_to_vec().as_slice()).unwrap();
        assert_eq!(received.encode_to_vec(), sent.encode_to_vec());
        assert_eq!(received.encoded_len(), sent.encoded_len());
        let read = ReceivedEvent::read(&received.events[1]).unwrap();
        assert_eq!((read.kind(), read.revision, read.initial_state_end), (Type::Modified, 7, false));
        assert_eq!(read.author().unwrap(), event().author);
        assert_eq!(read.error().unwrap(), None);
        let object = read.object.unwrap();
        assert_eq!(Some(Object::decode(object.clone()).unwrap()), event().object);
        let name = ReceivedName::read(&object).unwrap();
        assert_eq!(
            (&name.namespace[..], &name.name[..], &name.uid[..]),
            (&b"default"[..], &b"web"[..], &b"u1"[..])
        );
    }

    #[test]
    fn bytes_that_are_no_answer_are_an_error_and_not_a_panic() {
        let good = WatchResponse { events: vec![event()] }.encode_to_vec();
        for end in 0..good.len() {
            if let Ok(received) = ReceivedEvents::decode(&good[..end]) {
                for event in &received.events {
                    let _ = ReceivedEvent::read(event).map(|it| it.object.map(|it| ReceivedName::read(&it)));
                }
            }
        }
        assert!(ReceivedEvents::decode(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f][..]).is_err());
        assert!(ReceivedEvent::read(&Bytes::from_static(&[0xff])).is_err());
    }
}
