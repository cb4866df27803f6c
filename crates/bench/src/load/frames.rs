//! Answers taken as they come, without being decoded: a client that counts must not cost more than the server it measures.
//!
//! Only the few numbers that a row needs are read, by walking over the fields.

use bytes::{Buf, Bytes};
use prost::Message;
use setpoint_api::etcdserverpb as etcd;
use setpoint_api::setpoint::v1 as pb;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{IntoRequest, Request, Status, Streaming};

/// A whole state is more than 200 MB in one answer of etcd's.
const ANSWER_BYTES_MAX: usize = 1 << 30;

/// Encodes `T`, and leaves answers as they are.
struct FrameCodec<T>(std::marker::PhantomData<fn(T)>);

struct FrameEncoder<T>(std::marker::PhantomData<fn(T)>);

struct FrameDecoder;

impl<T: Message + 'static> Codec for FrameCodec<T> {
    type Encode = T;
    type Decode = Bytes;
    type Encoder = FrameEncoder<T>;
    type Decoder = FrameDecoder;

    fn encoder(&mut self) -> Self::Encoder {
        FrameEncoder(std::marker::PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        FrameDecoder
    }
}

impl<T: Message + 'static> Encoder for FrameEncoder<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, message: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.encode(buffer).map_err(|error| Status::internal(error.to_string()))
    }
}

impl Decoder for FrameDecoder {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

fn codec<T>() -> FrameCodec<T> {
    FrameCodec(std::marker::PhantomData)
}

async fn service(connection: Channel) -> Result<tonic::client::Grpc<Channel>, Status> {
    let mut service = tonic::client::Grpc::new(connection).max_decoding_message_size(ANSWER_BYTES_MAX);
    service.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    Ok(service)
}

/// A watch of objects.
pub async fn watch_objects(connection: Channel, watch: pb::WatchRequest) -> Result<Streaming<Bytes>, Status> {
    let path = PathAndQuery::from_static("/setpoint.v1.Objects/Watch");
    let answer = service(connection).await?.server_streaming(Request::new(watch), path, codec()).await?;
    Ok(answer.into_inner())
}

/// A stream of etcd's watch service. It lasts as long as `requests`.
pub async fn watch_keys(
    connection: Channel,
    requests: impl tokio_stream::Stream<Item = etcd::WatchRequest> + Send + 'static,
) -> Result<Streaming<Bytes>, Status> {
    let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
    let answer = service(connection).await?.streaming(Request::new(requests), path, codec()).await?;
    Ok(answer.into_inner())
}

/// A range of keys.
pub async fn range(connection: Channel, range: etcd::RangeRequest) -> Result<Bytes, Status> {
    let path = PathAndQuery::from_static("/etcdserverpb.KV/Range");
    let answer = service(connection).await?.unary(range.into_request(), path, codec()).await?;
    Ok(answer.into_inner())
}

/// One field of an encoded message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'m> {
    Number(u64),
    Bytes(&'m [u8]),
}

/// The fields of an encoded message by number. Ends early where the bytes are no message.
pub fn fields(message: &[u8]) -> impl Iterator<Item = (u64, Value<'_>)> {
    let mut rest = message;
    std::iter::from_fn(move || {
        let key = varint(&mut rest)?;
        let value = match key & 7 {
            0 => Value::Number(varint(&mut rest)?),
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                let (value, after) = rest.split_at_checked(length)?;
                rest = after;
                Value::Bytes(value)
            }
            _ => return None,
        };
        Some((key >> 3, value))
    })
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// A change as a watcher sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change<'m> {
    pub revision: u64,
    /// The object, or the value of the key.
    pub content: &'m [u8],
    /// Not a change, but a word about how far the stream has come.
    pub bookmark: bool,
    /// The stream ends with it.
    pub error: bool,
}

/// The events in an answer of a watch of objects. Numbers are those of `objects.proto`.
pub fn object_events(frame: &[u8]) -> impl Iterator<Item = Change<'_>> {
    let events = fields(frame).filter_map(|(number, value)| match (number, value) {
        (1, Value::Bytes(event)) => Some(event),
        _ => None,
    });
    events.map(|event| {
        let mut change = Change::default();
        for (number, value) in fields(event) {
            match (number, value) {
                (1, Value::Number(4)) => change.bookmark = true,
                (1, Value::Number(5)) => change.error = true,
                (2, Value::Bytes(object)) => change.content = object,
                (3, Value::Number(revision)) => change.revision = revision,
                _ => {}
            }
        }
        change
    })
}

/// The events in an answer of etcd's watch service. Numbers are those of `rpc.proto` and `kv.proto`.
pub fn key_events(frame: &[u8]) -> impl Iterator<Item = Change<'_>> {
    let events = fields(frame).filter_map(|(number, value)| match (number, value) {
        (11, Value::Bytes(event)) => Some(event),
        _ => None,
    });
    events.map(|event| {
        let mut change = Change::default();
        let kv = fields(event).find_map(|(number, value)| match (number, value) {
            (2, Value::Bytes(kv)) => Some(kv),
            _ => None,
        });
        for (number, value) in fields(kv.unwrap_or_default()) {
            match (number, value) {
                (3, Value::Number(revision)) => change.revision = revision,
                (5, Value::Bytes(value)) => change.content = value,
                _ => {}
            }
        }
        change
    })
}

/// How many keys an answer to a range holds.
pub fn keys_in(frame: &[u8]) -> usize {
    fields(frame).filter(|(number, value)| *number == 2 && matches!(value, Value::Bytes(_))).count()
}

#[cfg(test)]
mod tests {
    use setpoint_api::mvccpb::{Event, KeyValue};

    use super::*;

    #[test]
    fn events_of_objects_are_read_without_decoding_them() {
        let object = pb::Object { kind: "Workload".into(), spec: "{}".into(), ..pb::Object::default() };
        let of = |r#type: i32, object: Option<pb::Object>, revision| pb::WatchEvent {
            r#type,
            object,
            revision,
            ..pb::WatchEvent::default()
        };
        let events = vec![of(2, Some(object.clone()), 300), of(4, None, 301), of(5, None, 0)];
        let frame = pb::WatchResponse { events }.encode_to_vec();
        let content = object.encode_to_vec();
        let found: Vec<_> = object_events(&frame).collect();
        assert_eq!(found[0], Change { revision: 300, content: &content, ..Change::default() });
        assert_eq!(found[1], Change { revision: 301, bookmark: true, ..Change::default() });
        assert_eq!(found[2], Change { error: true, ..Change::default() });
    }

    #[test]
    fn events_of_keys_are_read_without_decoding_them() {
        let kv = KeyValue {
            key: "k".into(),
            value: "v".into(),
            mod_revision: 200,
            version: 9,
            ..KeyValue::default()
        };
        let events = vec![Event { kv: Some(kv), ..Event::default() }];
        let header = Some(etcd::ResponseHeader { revision: 201, ..etcd::ResponseHeader::default() });
        let frame = etcd::WatchResponse { header, events, ..etcd::WatchResponse::default() }.encode_to_vec();
        let found: Vec<_> = key_events(&frame).collect();
        assert_eq!(found, [Change { revision: 200, content: b"v", ..Change::default() }]);
    }

    #[test]
    fn keys_of_a_range_are_counted() {
        let kvs = vec![KeyValue { key: "k".into(), ..KeyValue::default() }; 3];
        let frame = etcd::RangeResponse { kvs, count: 3, ..etcd::RangeResponse::default() }.encode_to_vec();
        assert_eq!(keys_in(&frame), 3);
    }

    #[test]
    fn bytes_that_are_no_message_end_the_walk() {
        for bytes in [&b"\x0a\xff"[..], b"\x0b", b"\xff", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"] {
            assert_eq!(fields(bytes).count(), 0, "{bytes:?}");
        }
    }
}
