//! Events of a watch, encoded once and shared by everybody they are sent to.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::DecodeError;
use prost::Message;
use prost::encoding::{
    DecodeContext, WireType, encode_key, encode_varint, encoded_len_varint, key_len, skip_field,
};

use super::{RawObject, v1};

/// Number of the field, as `objects.proto` has it.
const EVENTS: u32 = 1;

/// One encoded event, or several in a row, as they lie in a `WatchResponse`.
///
/// The object in it is not copied but shared with whoever else holds its stored bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawEvent {
    head: Bytes,
    /// Stored bytes, or nothing.
    body: Bytes,
    tail: Bytes,
}

impl RawEvent {
    /// Encodes everything but the object's stored bytes, which it shares.
    pub fn new(event: v1::WatchEvent) -> Self {
        let Some(RawObject { stored, revision }) = &event.object else {
            let mut head = BytesMut::with_capacity(event.encoded_len() + 8);
            put_event(&event, &mut head);
            return Self { head: head.freeze(), ..Self::default() };
        };
        let (stored, revision) = (stored.clone(), *revision);
        let around = Around::new(stored.len(), revision, v1::WatchEvent { object: None, ..event });
        let (mut head, mut tail) = (BytesMut::with_capacity(24), BytesMut::with_capacity(around.tail_len()));
        around.put_head(&mut head);
        around.put_tail(&mut tail);
        Self { head: head.freeze(), body: stored, tail: tail.freeze() }
    }

    /// Its size on the wire.
    pub fn len(&self) -> usize {
        self.head.len() + self.body.len() + self.tail.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How much of it is held by nobody else.
    pub fn own_bytes(&self) -> usize {
        self.head.len() + self.tail.len()
    }
}

/// Number of the field in an event.
const OBJECT: u32 = 2;

/// An event but for the stored bytes in it. The fields are put down in this order: `object` with the stored bytes at its
/// beginning, then all others.
struct Around {
    stored_len: usize,
    /// What of the object follows the stored bytes.
    added: RawObject,
    others: v1::WatchEvent,
}

impl Around {
    fn new(stored_len: usize, revision: u64, others: v1::WatchEvent) -> Self {
        Self { stored_len, added: RawObject::new(Bytes::new(), revision), others }
    }

    fn put_head(&self, buffer: &mut BytesMut) {
        let object_len = self.stored_len + self.added.encoded_len();
        let object_field = key_len(OBJECT) + encoded_len_varint(object_len as u64) + object_len;
        encode_key(EVENTS, WireType::LengthDelimited, buffer);
        encode_varint((object_field + self.others.encoded_len()) as u64, buffer);
        encode_key(OBJECT, WireType::LengthDelimited, buffer);
        encode_varint(object_len as u64, buffer);
    }

    fn tail_len(&self) -> usize {
        self.added.encoded_len() + self.others.encoded_len()
    }

    fn put_tail(&self, buffer: &mut BytesMut) {
        self.added.encode_raw(buffer);
        self.others.encode_raw(buffer);
    }
}

/// Objects of a state, one after the other in one piece of memory; for events that nobody shares.
#[derive(Debug, Default)]
pub struct StateEvents {
    encoded: BytesMut,
}

impl StateEvents {
    pub fn with_capacity(bytes: usize) -> Self {
        Self { encoded: BytesMut::with_capacity(bytes) }
    }

    /// Adds an object that is there, as it is stored.
    pub fn push(&mut self, stored: &[u8], revision: u64) {
        let r#type = v1::watch_event::Type::Added.into();
        let around =
            Around::new(stored.len(), revision, v1::WatchEvent { r#type, revision, ..Default::default() });
        around.put_head(&mut self.encoded);
        self.encoded.put_slice(stored);
        around.put_tail(&mut self.encoded);
    }

    pub fn into_events(self) -> RawEvent {
        RawEvent { head: self.encoded.freeze(), ..RawEvent::default() }
    }
}

fn put_event(event: &v1::WatchEvent, buffer: &mut BytesMut) {
    encode_key(EVENTS, WireType::LengthDelimited, buffer);
    encode_varint(event.encoded_len() as u64, buffer);
    event.encode_raw(buffer);
}

/// On the wire a `WatchResponse`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawWatchResponse {
    pub events: Vec<Arc<RawEvent>>,
}

impl prost::Message for RawWatchResponse {
    fn encode_raw(&self, buffer: &mut impl BufMut) {
        for event in &self.events {
            buffer.put_slice(&event.head);
            buffer.put_slice(&event.body);
            buffer.put_slice(&event.tail);
        }
    }

    /// The server only writes them.
    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buffer: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        skip_field(wire_type, tag, buffer, context)
    }

    fn encoded_len(&self) -> usize {
        self.events.iter().map(|event| event.len()).sum()
    }

    fn clear(&mut self) {
        self.events.clear();
    }
}
