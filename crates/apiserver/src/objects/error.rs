//! Refusals of the object API: one reason from a closed list, a sentence for people, and what a program needs to go on.
//!
//! `code` is the whole table of which reason is which gRPC code.

use prost::Message;
use setpoint_access::{Full, TooMany};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_consensus::ReadError;
use setpoint_types::Revision;
use std::fmt;
use std::time::Duration;
use tonic::{Code, Status};

use super::key::ObjectName;
use crate::load;

/// The gRPC code of a reason.
///
/// | code | what a client that knows only codes does about it |
/// |---|---|
/// | `Unavailable`, `ResourceExhausted` | tries again, later |
/// | `DeadlineExceeded` | tries again, perhaps elsewhere |
/// | `Aborted` | reads anew, decides anew |
/// | `OutOfRange` | lists anew |
/// | others | tells somebody |
pub fn code(reason: Reason) -> Code {
    match reason {
        Reason::NotFound => Code::NotFound,
        Reason::AlreadyExists => Code::AlreadyExists,
        Reason::Conflict => Code::Aborted,
        Reason::Fenced => Code::FailedPrecondition,
        Reason::Expired => Code::OutOfRange,
        Reason::Invalid => Code::InvalidArgument,
        Reason::Forbidden => Code::PermissionDenied,
        Reason::Unauthenticated => Code::Unauthenticated,
        Reason::QuotaExceeded => Code::FailedPrecondition,
        Reason::NoHeadroom => Code::FailedPrecondition,
        Reason::TooManyRequests => Code::ResourceExhausted,
        Reason::NotLeader => Code::Unavailable,
        Reason::Unavailable => Code::Unavailable,
        Reason::Timeout => Code::DeadlineExceeded,
        Reason::TooLarge => Code::InvalidArgument,
        Reason::TooSlow => Code::Aborted,
        Reason::Internal | Reason::Unspecified => Code::Internal,
    }
}

/// Why a request is not done. Nothing was changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal(Box<pb::Error>);

impl Refusal {
    /// The sentence ends with the next step, if there is one.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self(Box::new(pb::Error { reason: reason.into(), message: message.into(), ..pb::Error::default() }))
    }

    /// A field of the request, or of the object in it, is wrong.
    pub fn invalid(path: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let problem = pb::FieldProblem { path: path.to_owned(), message: message.clone() };
        let mut refusal = Self::new(Reason::Invalid, format!("{path} {message}"));
        refusal.0.problems.push(problem);
        refusal
    }

    pub fn not_found(object: ObjectName<'_>) -> Self {
        let ObjectName { kind, namespace, name } = object;
        let place = if namespace.is_empty() { String::new() } else { format!(" in namespace {namespace}") };
        Self::new(Reason::NotFound, format!("there is no {kind} {name}{place}")).about(object)
    }

    /// What was asked for is no longer kept.
    pub fn expired(oldest: Revision) -> Self {
        let text =
            format!("the revision is no longer kept, the oldest is {oldest}; read the current state instead");
        Self::new(Reason::Expired, text).at(oldest)
    }

    /// The object concerned.
    pub fn about(mut self, object: ObjectName<'_>) -> Self {
        let own = str::to_owned;
        let (kind, namespace, name) = (own(object.kind), own(object.namespace), own(object.name));
        self.0.object = Some(pb::ObjectKey { kind, namespace, name });
        self
    }

    /// A field of the request that has to do with it.
    pub fn naming(mut self, path: impl Into<String>, message: impl Into<String>) -> Self {
        self.0.problems.push(pb::FieldProblem { path: path.into(), message: message.into() });
        self
    }

    /// Of a part of the request: its fields are below this one.
    pub fn within(mut self, part: &str) -> Self {
        for problem in &mut self.0.problems {
            // Fields of objects begin with a dot; a problem of the whole has no path.
            let dot = if problem.path.is_empty() || problem.path.starts_with('.') { "" } else { "." };
            problem.path = format!("{part}{dot}{}", problem.path);
        }
        self
    }

    /// Of one of several parts, and says of which in any case.
    pub fn in_part(self, part: &str) -> Self {
        if self.0.problems.is_empty() { self.naming(part, "is refused") } else { self.within(part) }
    }

    pub fn at(mut self, revision: Revision) -> Self {
        self.0.revision = revision.get();
        self
    }

    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.0.retry_after_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
        self
    }

    pub fn reason(&self) -> Reason {
        self.0.reason()
    }

    /// As it goes into an ERROR event.
    pub fn into_error(self) -> pb::Error {
        *self.0
    }

    pub fn error(&self) -> &pb::Error {
        &self.0
    }

    pub fn error_mut(&mut self) -> &mut pb::Error {
        &mut self.0
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason().as_str_name(), self.0.message)
    }
}

impl std::error::Error for Refusal {}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        setpoint_api::status::refused(code(refusal.reason()), &fitted(*refusal.0))
    }
}

/// Of a sentence, and of everything that a client itself wrote and is quoted to it.
const TEXT_BYTES_MAX: usize = 512;
/// Of an encoded error. It goes into the trailers of the response, of which stock clients take 8 KiB: the error as base64, and
/// twice the sentence.
const ERROR_BYTES_MAX: usize = 4 << 10;

/// As much of an error as a client will take: a field's name, or a value somebody is in conflict about, may be a megabyte.
fn fitted(mut error: pb::Error) -> pb::Error {
    shorten(&mut error.message);
    for problem in &mut error.problems {
        shorten(&mut problem.path);
        shorten(&mut problem.message);
    }
    for conflict in &mut error.conflicts {
        shorten(&mut conflict.path);
        shorten(&mut conflict.manager);
        shorten(&mut conflict.value);
    }
    if let Some(key) = &mut error.object {
        [&mut key.kind, &mut key.namespace, &mut key.name].into_iter().for_each(shorten);
    }
    while error.encoded_len() > ERROR_BYTES_MAX
        && (error.conflicts.pop().is_some() || error.problems.pop().is_some())
    {}
    error
}

fn shorten(text: &mut String) {
    const MARK: &str = "…";
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX - MARK.len()));
        text.push_str(MARK);
    }
}

/// How long a client waits before it asks a busy or leaderless cluster again.
const SOON: Duration = Duration::from_millis(500);

impl From<ReadError> for Refusal {
    fn from(error: ReadError) -> Self {
        let (reason, text) = match error {
            ReadError::NoLeader => {
                (Reason::Unavailable, "the cluster has no leader at the moment; try again")
            }
            ReadError::NoQuorum => (Reason::Timeout, "no majority of nodes answered in time; try again"),
            ReadError::Overloaded => {
                (Reason::TooManyRequests, "more reads wait than this node takes on; try again")
            }
            ReadError::TimedOut => {
                (Reason::Timeout, "this node did not catch up in time; try again or elsewhere")
            }
            ReadError::ShuttingDown => (Reason::Unavailable, "this node is stopping; try another one"),
        };
        Self::new(reason, text).retry_after(SOON)
    }
}

impl From<TooMany> for Refusal {
    fn from(refused: TooMany) -> Self {
        Self::new(Reason::TooManyRequests, refused.to_string()).retry_after(refused.retry_after)
    }
}

/// How long a client waits before it asks again for a place that only others can leave.
const LATER: Duration = Duration::from_secs(5);

impl Refusal {
    /// There is no place for another stream or watch; `what` and the beginning of its `settings`.
    pub fn full(full: Full, what: &str, settings: &str) -> Self {
        Self::new(Reason::TooManyRequests, load::sentence(full, what, settings)).retry_after(LATER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_code_that_is_an_error_and_travels_with_it() {
        for number in 0..=17 {
            let reason = Reason::try_from(number).expect("the reasons are numbered without gaps");
            let refusal = Refusal::new(reason, "why").at(Revision::new(7)).retry_after(SOON);
            let error = refusal.error().clone();
            let status = Status::from(refusal);
            assert_ne!(status.code(), Code::Ok);
            assert_eq!(setpoint_api::status::error_of(&status), Some(error));
            assert_eq!(setpoint_api::status::pushback_of(&status), Some(SOON));
        }
        assert!(Reason::try_from(18).is_err(), "a new reason wants its line in the table");
    }

    #[test]
    fn the_page_about_errors_has_every_reason_with_its_code() {
        let page = include_str!("../../../../docs/errors.md");
        for reason in (1..=17).filter_map(|number| Reason::try_from(number).ok()) {
            let name = reason.as_str_name();
            let row = format!("| [{name}](#{}) | `{:?}` |", name.to_lowercase(), code(reason));
            assert!(page.contains(&row) && page.contains(&format!("\n## {name}\n")), "{row}");
        }
    }

    #[test]
    fn whatever_is_quoted_an_error_fits_into_trailers() {
        let long = "ä".repeat(1 << 20);
        let mut refusal = Refusal::invalid(&long, &long);
        let problem = pb::FieldProblem { path: long.clone(), message: long.clone() };
        let conflict = pb::FieldConflict { path: long.clone(), manager: long.clone(), value: long.clone() };
        refusal.error_mut().problems = vec![problem; 32];
        refusal.error_mut().conflicts = vec![conflict; 32];
        let refusal = refusal.about(ObjectName { kind: &long, namespace: &long, name: &long });
        let status = Status::from(refusal);
        assert!(status.details().len() <= ERROR_BYTES_MAX + 1024, "{}", status.details().len());
        let error = setpoint_api::status::error_of(&status).expect("details");
        assert!(error.problems[0].path.ends_with('…') && error.message.ends_with('…'));
    }

    #[test]
    fn a_wrong_field_is_named_in_the_sentence_and_for_programs() {
        let error = Refusal::invalid("label_selector", "cannot be read").into_error();
        assert_eq!(error.message, "label_selector cannot be read");
        assert_eq!(error.problems[0].path, "label_selector");
    }
}
