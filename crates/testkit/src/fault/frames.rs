//! Messages of gRPC as they lie in a body: taken out, changed, put back.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures::Stream;
use http_body::{Body as _, Frame};
use prost::Message;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::read_at::At;
use setpoint_api::setpoint::v1::watch_event::Type;
use setpoint_types::Revision;
use tonic::Status;
use tonic::body::Body;

/// A flag that says whether it is compressed, and the length.
const HEAD: usize = 5;

/// The whole of a request.
pub async fn collect(mut body: Body) -> Result<Bytes, Status> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = next(&mut body).await {
        if let Ok(data) = frame?.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes.freeze())
}

pub async fn next(body: &mut Body) -> Option<Result<Frame<Bytes>, Status>> {
    std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
}

/// The messages of a part of a stream, each with its head. The server sends them whole.
pub fn split(mut data: Bytes) -> Vec<Bytes> {
    let mut messages = Vec::new();
    while data.len() >= HEAD {
        let length = HEAD + (&data[1..HEAD]).get_u32() as usize;
        messages.push(data.split_to(length.min(data.len())));
    }
    messages
}

/// Whether an answer of a watch tells of a change.
pub fn tells_of_change(message: &Bytes) -> bool {
    let answer = pb::WatchResponse::decode(message.slice(HEAD..)).unwrap_or_default();
    answer.events.iter().any(|event| matches!(event.r#type(), Type::Added | Type::Modified | Type::Deleted))
}

/// The kind that a request to watch is about.
pub fn watched(message: &Bytes) -> String {
    pb::WatchRequest::decode(message.slice(HEAD.min(message.len())..)).unwrap_or_default().kind
}

/// A request to get or list that allows any state, as one of this revision. None if it is another.
pub fn made_older(path: &str, message: &Bytes, revision: Revision) -> Option<Bytes> {
    let older = |at: &mut Option<pb::ReadAt>| {
        let is_cached = matches!(at.as_ref().and_then(|it| it.at.as_ref()), Some(At::Cached(_)));
        *at = Some(pb::ReadAt { at: Some(At::Exact(revision.get())) });
        is_cached
    };
    let message = message.slice(HEAD.min(message.len())..);
    if path.ends_with("/Get") {
        let mut request = pb::GetRequest::decode(message).ok()?;
        return older(&mut request.at).then(|| framed(&request));
    }
    let mut request = pb::ListRequest::decode(message).ok()?;
    older(&mut request.at).then(|| framed(&request))
}

fn framed(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::with_capacity(HEAD + message.encoded_len());
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.encoded_len()).unwrap_or(u32::MAX));
    bytes.extend_from_slice(&message.encode_to_vec());
    bytes.freeze()
}

/// A body that is there already.
pub struct Whole(Option<Bytes>);

impl Whole {
    pub fn body(bytes: Bytes) -> Body {
        Body::new(Self(Some(bytes)))
    }
}

impl http_body::Body for Whole {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// A body whose parts come one by one.
pub struct Streamed<S>(Pin<Box<S>>);

impl<S: Stream<Item = Result<Frame<Bytes>, Status>> + Send + 'static> Streamed<S> {
    pub fn body(frames: S) -> Body {
        Body::new(Self(Box::pin(frames)))
    }
}

impl<S: Stream<Item = Result<Frame<Bytes>, Status>>> http_body::Body for Streamed<S> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.0.as_mut().poll_next(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_apart_as_they_were_put_together() {
        let (one, other) = (pb::GetRequest::default(), pb::ListRequest { limit: 7, ..Default::default() });
        let mut both = BytesMut::from(&framed(&one)[..]);
        both.extend_from_slice(&framed(&other));
        assert_eq!(split(both.freeze()), [framed(&one), framed(&other)]);
    }

    #[test]
    fn only_reads_that_allow_it_are_made_older() {
        let at = |at| Some(pb::ReadAt { at: Some(at) });
        let request = |at| framed(&pb::GetRequest { at, ..Default::default() });
        let old = Revision::new(3);
        let made = made_older("/setpoint.v1.Objects/Get", &request(at(At::Cached(Default::default()))), old);
        assert_eq!(made, Some(request(at(At::Exact(3)))));
        assert_eq!(made_older("/setpoint.v1.Objects/Get", &request(None), old), None);
        assert_eq!(made_older("/setpoint.v1.Objects/Get", &request(at(At::NotOlderThan(9))), old), None);
    }
}
