//! What a refused call carries besides its code and sentence: an `Error` in the details of its status, where stock gRPC
//! libraries look for it (`grpc-status-details-bin`, a `google.rpc.Status` with the message in an `Any`).
//!
//! The time to wait before the next try is said in the two ways that stock clients understand, too: a
//! `google.rpc.RetryInfo` among the details, and `grpc-retry-pushback-ms` among the trailers.

use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use crate::setpoint::v1::Error;

const TYPE_URL: &str = "type.googleapis.com/setpoint.v1.Error";
const RETRY_URL: &str = "type.googleapis.com/google.rpc.RetryInfo";
/// What gRPC's own retries obey.
pub const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// `google.rpc.Status`, which is not part of our contract and therefore not under `proto/`.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

/// `google.rpc.RetryInfo`, with a `google.protobuf.Duration`.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    delay: Option<Delay>,
}

#[derive(Clone, PartialEq, Message)]
struct Delay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

/// A status that carries the error.
pub fn refused(code: Code, error: &Error) -> Status {
    refused_as(code, &error.message, error)
}

/// The same, with another sentence for those who only read that.
pub fn refused_as(code: Code, message: &str, error: &Error) -> Status {
    let mut details = vec![Any { type_url: TYPE_URL.to_owned(), value: error.encode_to_vec().into() }];
    let wait = Duration::from_millis(error.retry_after_ms.into());
    if !wait.is_zero() {
        let delay = Delay { seconds: wait.as_secs() as i64, nanos: wait.subsec_nanos() as i32 };
        let value = RetryInfo { delay: Some(delay) }.encode_to_vec().into();
        details.push(Any { type_url: RETRY_URL.to_owned(), value });
    }
    let status = RpcStatus { code: code.into(), message: message.to_owned(), details };
    let status = Status::with_details(code, message, status.encode_to_vec().into());
    if wait.is_zero() { status } else { with_pushback(status, error.retry_after_ms) }
}

/// Tells gRPC's own retries when to try again.
pub fn with_pushback(mut status: Status, wait_ms: u32) -> Status {
    status.metadata_mut().insert(PUSHBACK, MetadataValue::from(wait_ms));
    status
}

/// How long a status says to wait, for those who read neither details nor our messages.
pub fn pushback_of(status: &Status) -> Option<Duration> {
    let wait = status.metadata().get(PUSHBACK)?.to_str().ok()?;
    wait.parse().ok().map(Duration::from_millis)
}

/// The error a status carries, if it has one.
pub fn error_of(status: &Status) -> Option<Error> {
    let carried = RpcStatus::decode(status.details()).ok()?;
    let any = carried.details.into_iter().find(|any| any.type_url == TYPE_URL)?;
    Error::decode(any.value).ok()
}
