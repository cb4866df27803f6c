//! What a refused call carries besides its code and sentence: an `Error` in the details of its status, where stock gRPC
//! libraries look for it (`grpc-status-details-bin`, a `google.rpc.Status` with the message in an `Any`).

use bytes::Bytes;
use prost::Message;
use tonic::{Code, Status};

use crate::setpoint::v1::Error;

const TYPE_URL: &str = "type.googleapis.com/setpoint.v1.Error";

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

/// A status that carries the error.
pub fn refused(code: Code, error: &Error) -> Status {
    let value = error.encode_to_vec().into();
    let details = vec![Any { type_url: TYPE_URL.to_owned(), value }];
    let status = RpcStatus { code: code.into(), message: error.message.clone(), details };
    Status::with_details(code, error.message.clone(), status.encode_to_vec().into())
}

/// The error a status carries, if it has one.
pub fn error_of(status: &Status) -> Option<Error> {
    let carried = RpcStatus::decode(status.details()).ok()?;
    let any = carried.details.into_iter().find(|any| any.type_url == TYPE_URL)?;
    Error::decode(any.value).ok()
}
