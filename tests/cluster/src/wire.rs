//! Requests as bytes: what no generated client would send.

use bytes::{Buf, BufMut, Bytes};
use http::uri::PathAndQuery;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Status};

use crate::client::Client;

#[derive(Clone, Copy, Default)]
struct Plain;

impl Codec for Plain {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let length = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(length)))
    }
}

/// Sends these bytes as the one message of a call, and returns the first answer.
pub async fn call(client: &Client, method: &str, message: Bytes) -> Result<Bytes, Status> {
    let mut grpc = tonic::client::Grpc::new(client.channel.clone());
    grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let path = PathAndQuery::try_from(method).map_err(|error| Status::internal(error.to_string()))?;
    let request = Request::new(tokio_stream::once(message));
    let mut answers = grpc.streaming(request, path, Plain).await?.into_inner();
    answers.message().await?.ok_or_else(|| Status::cancelled("no answer"))
}

/// Begins a call and never sends its message. Ends only if it is refused; who does not want it any more drops it.
pub async fn hang(client: &Client, method: &'static str) -> Status {
    let mut grpc = tonic::client::Grpc::new(client.channel.clone());
    if let Err(error) = grpc.ready().await {
        return Status::unavailable(error.to_string());
    }
    let request = Request::new(tokio_stream::pending::<Bytes>());
    match grpc.streaming(request, PathAndQuery::from_static(method), Plain).await {
        Ok(_) => Status::ok("answered without having been asked"),
        Err(refused) => refused,
    }
}
