//! A message that is too large for us, refused in the words clients of etcd know.
//!
//! The gRPC library refuses it before any service sees it, with a code and a text of its own. Clients of the object API find
//! the reason, as always, in the details; also of bytes that are no message.
//!
//! Not here: requests that fit a message but not the log (`etcd::kv` refuses those).

use http::Response;
use setpoint_api::setpoint::v1::{Error, Reason};
use setpoint_api::status::refused_as;
use tonic::body::Body;
use tonic::{Code, Status};

/// Turns the library's refusal into etcd's; leaves every other answer as it is.
pub fn in_etcds_words(response: Response<Body>) -> Response<Body> {
    let refusal = Status::from_header_map(response.headers()).and_then(|status| match status.code() {
        Code::OutOfRange => translate(status.message()),
        Code::Internal => unreadable(status.message()),
        _ => None,
    });
    match refusal {
        Some(refusal) => refusal.into_http(),
        None => response,
    }
}

/// Bytes that are no message are the client's mistake; the code stays the library's.
fn unreadable(text: &str) -> Option<Status> {
    text.strip_prefix("failed to decode Protobuf message")?;
    let error = Error { reason: Reason::Invalid.into(), message: text.to_owned(), ..Error::default() };
    Some(refused_as(Code::Internal, text, &error))
}

fn translate(text: &str) -> Option<Status> {
    let sizes = text.strip_prefix("Error, decoded message length too large: found ")?;
    let (size, limit) = sizes.split_once(" bytes, the limit is: ")?;
    let limit = limit.strip_suffix(" bytes")?;
    let sentence = format!(
        "the request has {size} bytes, the most is {limit}; make it smaller, or several (--max-request-bytes)"
    );
    let error = Error { reason: Reason::TooLarge.into(), message: sentence, ..Error::default() };
    let text = format!("grpc: received message larger than max ({size} vs. {limit})");
    Some(refused_as(Code::ResourceExhausted, &text, &error))
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
        let error = setpoint_api::status::error_of(&refusal).expect("an error for programs");
        assert_eq!(error.reason(), Reason::TooLarge);
        assert!(error.message.contains("2200012 bytes, the most is 2097152"), "{}", error.message);
    }

    #[test]
    fn bytes_that_are_no_message_have_a_reason() {
        let reason = |text| setpoint_api::status::error_of(&answered(Status::internal(text)));
        let unreadable = reason("failed to decode Protobuf message: buffer underflow");
        assert_eq!(unreadable.map(|error| error.reason()), Some(Reason::Invalid));
        assert_eq!(reason("the disk is broken"), None);
    }

    #[test]
    fn other_refusals_stay_as_they_are() {
        let future = "etcdserver: mvcc: required revision is a future revision";
        let refusal = answered(Status::out_of_range(future));
        assert_eq!((refusal.code(), refusal.message()), (Code::OutOfRange, future));
    }
}
