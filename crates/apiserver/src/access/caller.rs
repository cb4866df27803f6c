//! Who sent a request: the principal that the listener put into it, where it came from, and the trace it is part of.

use std::net::SocketAddr;

use setpoint_access::Principal;
use tonic::Request;

/// Who sent a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub principal: Principal,
    pub source: Option<SocketAddr>,
    /// A W3C trace id, or nothing.
    pub trace: String,
}

impl Default for Caller {
    /// Where access control is off.
    fn default() -> Self {
        Self { principal: Principal::anonymous(), source: None, trace: String::new() }
    }
}

impl Caller {
    pub fn of<T>(request: &Request<T>) -> Self {
        let principal = request.extensions().get::<Principal>().cloned();
        let traceparent = request.metadata().get("traceparent").and_then(|header| header.to_str().ok());
        Self {
            principal: principal.unwrap_or_else(Principal::anonymous),
            source: request.remote_addr(),
            trace: trace(traceparent),
        }
    }
}

/// The trace's id, if the header can be read: as W3C has it, in lower case and not all zeros. Whoever reads it from a revision
/// goes on with it, and would otherwise send what nobody takes.
fn trace(traceparent: Option<&str>) -> String {
    let id = traceparent.and_then(|header| header.split('-').nth(1));
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_id = |id: &&str| id.len() == 32 && id.bytes().all(is_digit) && id.bytes().any(|byte| byte != b'0');
    id.filter(is_id).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_taken_from_its_header_or_left_out() {
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        let header = format!("00-{id}-00f067aa0ba902b7-01");
        assert_eq!(trace(Some(&header)), id);
        for bad in [None, Some(""), Some("00"), Some("00-xyz-1-2"), Some("00--1-2")] {
            assert_eq!(trace(bad), "");
        }
        for bad in [id.to_uppercase(), "0".repeat(32), format!("{id}0")] {
            assert_eq!(trace(Some(&format!("00-{bad}-00f067aa0ba902b7-01"))), "", "{bad}");
        }
    }

    #[test]
    fn a_request_without_a_principal_is_nobodys() {
        let mut request = Request::new(());
        assert_eq!(Caller::of(&request), Caller::default());
        let jane = Principal::new("jane", ["ops"]).expect("a name");
        request.extensions_mut().insert(jane.clone());
        assert_eq!(Caller::of(&request).principal, jane);
    }
}
