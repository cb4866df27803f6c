//! What the server says when it does not do something: one reason from a closed list, and what a program needs to go on.

use std::fmt;
use std::time::Duration;

use setpoint_api::setpoint::v1 as pb;
use setpoint_types::object::Fence;
use setpoint_types::quantity::Amounts;
use setpoint_types::{FieldProblem, ObjectKey, Revision};
use tonic::{Code, Status};

use crate::convert;

/// Why a request was refused. New ones may come: match with a wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    NotFound,
    AlreadyExists,
    /// The object is not what the request expected: read and decide again.
    Conflict,
    /// The lease of the fence is not held at its epoch: stop.
    Fenced,
    /// What was asked for is no longer kept: list again.
    Expired,
    Invalid,
    Forbidden,
    Unauthenticated,
    QuotaExceeded,
    NoHeadroom,
    TooManyRequests,
    NotLeader,
    Unavailable,
    Timeout,
    TooLarge,
    /// A watch whose initial state was overtaken by a compaction: begin again.
    TooSlow,
    Internal,
    /// One this client does not know.
    Unknown,
}

impl Reason {
    /// It may be otherwise in a moment, without anybody changing the request.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::TooManyRequests | Self::NotLeader | Self::Unavailable | Self::Timeout)
    }
}

/// A refusal with its details. Which of them are there depends on the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    pub reason: Reason,
    /// One sentence for people, with the next step.
    pub message: String,
    /// Of an invalid object, each with its field.
    pub problems: Vec<FieldProblem>,
    /// Who owns what, where an apply conflicts.
    pub conflicts: Vec<FieldConflict>,
    pub object: Option<ObjectKey>,
    /// Its revision where another was expected; for Expired and TooSlow the oldest kept; for Timeout that of the node.
    pub revision: Revision,
    pub retry_after: Option<Duration>,
    /// For Fenced: the lease as it is.
    pub held: Option<Fence>,
    /// For NoHeadroom: the ledger, and what is left where it does not suffice.
    pub headroom: Option<(String, Amounts)>,
}

/// A field that somebody else decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldConflict {
    /// `.spec.replicas`
    pub path: String,
    pub manager: String,
    /// As JSON.
    pub value: String,
}

impl Refusal {
    /// What a status says. One without details, as a proxy or an older server sends it, has the reason that its code means.
    pub(crate) fn of(status: &Status) -> Self {
        match setpoint_api::status::error_of(status) {
            Some(error) => Self::of_error(error),
            None => {
                Self::of_error(pb::Error { message: status.message().to_owned(), ..pb::Error::default() })
                    .because(reason_of_code(status.code()), setpoint_api::status::retry_after(status))
            }
        }
    }

    pub(crate) fn of_error(error: pb::Error) -> Self {
        let reason = reason(error.reason());
        let millis = u64::from(error.retry_after_ms);
        Self {
            reason,
            message: error.message,
            problems: error.problems.into_iter().map(|it| FieldProblem::new(it.path, it.message)).collect(),
            conflicts: error.conflicts.into_iter().map(convert::conflict).collect(),
            object: error.object.map(convert::key),
            revision: Revision::new(error.revision),
            retry_after: (millis > 0).then(|| Duration::from_millis(millis)),
            held: error.held.map(convert::fence),
            headroom: error.headroom.map(|it| (it.ledger, it.amounts.into_iter().collect())),
        }
    }

    fn because(mut self, reason: Reason, retry_after: Option<Duration>) -> Self {
        self.reason = reason;
        self.retry_after = retry_after;
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.reason, self.message)
    }
}

fn reason(reason: pb::Reason) -> Reason {
    match reason {
        pb::Reason::NotFound => Reason::NotFound,
        pb::Reason::AlreadyExists => Reason::AlreadyExists,
        pb::Reason::Conflict => Reason::Conflict,
        pb::Reason::Fenced => Reason::Fenced,
        pb::Reason::Expired => Reason::Expired,
        pb::Reason::Invalid => Reason::Invalid,
        pb::Reason::Forbidden => Reason::Forbidden,
        pb::Reason::Unauthenticated => Reason::Unauthenticated,
        pb::Reason::QuotaExceeded => Reason::QuotaExceeded,
        pb::Reason::NoHeadroom => Reason::NoHeadroom,
        pb::Reason::TooManyRequests => Reason::TooManyRequests,
        pb::Reason::NotLeader => Reason::NotLeader,
        pb::Reason::Unavailable => Reason::Unavailable,
        pb::Reason::Timeout => Reason::Timeout,
        pb::Reason::TooLarge => Reason::TooLarge,
        pb::Reason::TooSlow => Reason::TooSlow,
        pb::Reason::Internal => Reason::Internal,
        pb::Reason::Unspecified => Reason::Unknown,
    }
}

fn reason_of_code(code: Code) -> Reason {
    match code {
        Code::NotFound => Reason::NotFound,
        Code::AlreadyExists => Reason::AlreadyExists,
        Code::Aborted => Reason::Conflict,
        Code::InvalidArgument => Reason::Invalid,
        Code::PermissionDenied => Reason::Forbidden,
        Code::Unauthenticated => Reason::Unauthenticated,
        Code::ResourceExhausted => Reason::TooManyRequests,
        Code::Unavailable => Reason::Unavailable,
        Code::DeadlineExceeded | Code::Cancelled => Reason::Timeout,
        // What does not fit is never smaller the next time.
        Code::OutOfRange => Reason::TooLarge,
        Code::Internal | Code::DataLoss => Reason::Internal,
        Code::Ok | Code::Unknown | Code::FailedPrecondition | Code::Unimplemented => Reason::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_of_the_contract_is_known() {
        for number in 1..=17 {
            let wire = pb::Reason::try_from(number).expect("the reasons are numbered without gaps");
            let error = pb::Error { reason: number, message: "m".into(), ..Default::default() };
            let status = setpoint_api::status::refused(Code::Internal, &error);
            let read = Refusal::of(&status);
            let name: String = wire.as_str_name().chars().filter(|it| *it != '_').collect();
            assert_eq!(format!("{:?}", read.reason).to_uppercase(), name);
        }
    }

    #[test]
    fn a_status_without_details_has_the_reason_of_its_code() {
        assert_eq!(Refusal::of(&Status::not_found("x")).reason, Reason::NotFound);
        assert_eq!(Refusal::of(&Status::unimplemented("x")).reason, Reason::Unknown);
        assert!(Refusal::of(&Status::unavailable("x")).reason.is_transient());
    }
}
