//! A message that is too large for us, refused in the words clients of etcd know.
//!
//! The gRPC library refuses it before any service sees it, with a code and a text of its own. Clients of the object API find
//! the reason in the details, as in every other refusal; those of etcd pass over them. Bytes that are no message get details
//! as well.
//!
//! Not here: requests that fit a message but not the log (`etcd::kv` refuses those).

use http::Response;
use setpoint_api::setpoint::v1::{Error, Reason};
use setpoint_api::status::refused;
use tonic::body::Body;
use tonic::{Code, Status};

/// Turns the library's refusal into etcd's; leaves every other answer as it is.
pub fn in_etcds_words(response: Response<Body>) -> Response<Body> {
    let Some(status) = Status::from_header_map(response.headers()) else { return response };
    match (status.code(), translate(status.message())) {
        (Code::OutOfRange, Some(text)) => explained(Code::ResourceExhausted, Reason::TooLarge, text),
        (Code::Internal, None) if status.message().starts_with(UNREADABLE) => {
            explained(Code::Internal, Reason::Invalid, status.message().to_owned())
        }
        _ => response,
    }
}

/// How the library's refusal of bytes that are no message begins.
const UNREADABLE: &str = "failed to decode Protobuf message";

fn explained(code: Code, reason: Reason, message: String) -> Response<Body> {
    refused(code, &Error { reason: reason.into(), message, ..Error::default() }).into_http()
}

fn translate(text: &str) -> Option<String> {
    let sizes = text.strip_prefix("Error, decoded message length too large: found ")?;
    let (size, limit) = sizes.split_once(" bytes, the limit is: ")?;
    let limit = limit.strip_suffix(" bytes")?;
    Some(format!("grpc: received message larger than max ({size} vs. {limit})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: Status) -> Status {
        let response = in_etcds_words(status.into_http());
        Status::from_header_map(response.headers()).expect("a refusal stays one")
    }

    #[test]
    fn a_message_that_is_too_large_is_refused_as_etcd_does() {
        let text =
            "Error, decoded message length too large: found 2200012 bytes, the limit is: 2097152 bytes";
        let refusal = answered(Status::out_of_range(text));
        assert_eq!(refusal.code(), Code::ResourceExhausted);
        assert_eq!(refusal.message(), "grpc: received message larger than max (2200012 vs. 2097152)");
    }

    #[test]
    fn details_say_the_reason() {
        let reason = |status| setpoint_api::status::error_of(&answered(status)).map(|error| error.reason());
        let large = "Error, decoded message length too large: found 2 bytes, the limit is: 1 bytes";
        assert_eq!(reason(Status::out_of_range(large)), Some(Reason::TooLarge));
        let unreadable = "failed to decode Protobuf message: buffer underflow";
        assert_eq!(reason(Status::internal(unreadable)), Some(Reason::Invalid));
        assert_eq!(reason(Status::internal("disk")), None);
    }

    #[test]
    fn other_refusals_stay_as_they_are() {
        let future = "etcdserver: mvcc: required revision is a future revision";
        let refusal = answered(Status::out_of_range(future));
        assert_eq!((refusal.code(), refusal.message()), (Code::OutOfRange, future));
    }
}
