//! What a failed attempt means: an answer, or a reason to try again, and what it says about the endpoint.
//!
//! Pure. Not here: the loop that tries (`call`).

use std::error::Error as _;
use std::io;
use std::time::Duration;

use setpoint_api::status::{error_of, retry_after};
use tonic::{Code, Status};

use crate::refusal::{Reason, Refusal};

/// Whether a request may be sent a second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Safety {
    /// It reads, or is a write with an operation id, which the server does once.
    Repeatable,
    /// A write without an id: only if it was surely not done.
    Once,
}

/// What to do after a failed attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// This is the answer.
    Answer(Box<Refusal>),
    /// No answer, and it must not be tried again.
    Stop,
    Again {
        /// The server asks not to be bothered before.
        not_before: Option<Duration>,
        /// Whoever is asked next has the same trouble: wait as long even if it is another endpoint.
        everywhere: bool,
    },
}

/// What an attempt says about the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It answered.
    Well,
    /// It answered that it cannot serve now: others may.
    Unwilling,
    /// It did not answer.
    Unreachable,
}

/// The judgement over one failed attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    pub next: Next,
    pub health: Health,
    /// If it was a write, it may have been done.
    pub perhaps_done: bool,
    /// Nobody listens there: nothing was sent.
    pub refused: bool,
}

pub fn judge(status: &Status, safety: Safety) -> Judgement {
    match error_of(status) {
        Some(_) => judge_refusal(Refusal::of(status), safety),
        None => judge_bare(status, safety),
    }
}

/// Said by one of our servers.
fn judge_refusal(refusal: Refusal, safety: Safety) -> Judgement {
    let not_before = refusal.retry_after;
    match refusal.reason {
        Reason::TooManyRequests => Judgement {
            next: Next::Again { not_before, everywhere: true },
            health: Health::Well,
            perhaps_done: false,
            refused: false,
        },
        // No leader: the proposal may have been on its way to the one before.
        Reason::Unavailable | Reason::NotLeader | Reason::Timeout => {
            let again = Next::Again { not_before, everywhere: false };
            let next = if safety == Safety::Repeatable { again } else { Next::Stop };
            Judgement { next, health: Health::Unwilling, perhaps_done: true, refused: false }
        }
        _ => Judgement {
            next: Next::Answer(Box::new(refusal)),
            health: Health::Well,
            perhaps_done: false,
            refused: false,
        },
    }
}

/// Said by the network, a proxy, or this process.
fn judge_bare(status: &Status, safety: Safety) -> Judgement {
    if is_refused(status) {
        let next = Next::Again { not_before: None, everywhere: false };
        return Judgement { next, health: Health::Unreachable, perhaps_done: false, refused: true };
    }
    match status.code() {
        Code::ResourceExhausted => Judgement {
            next: Next::Again { not_before: retry_after(status), everywhere: true },
            health: Health::Well,
            perhaps_done: false,
            refused: false,
        },
        // `Unknown` and `Internal` without details are what broken connections end in.
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown | Code::Internal => {
            let again = Next::Again { not_before: retry_after(status), everywhere: false };
            let next = if safety == Safety::Repeatable { again } else { Next::Stop };
            Judgement { next, health: Health::Unreachable, perhaps_done: true, refused: false }
        }
        _ => Judgement {
            next: Next::Answer(Box::new(Refusal::of(status))),
            health: Health::Well,
            perhaps_done: false,
            refused: false,
        },
    }
}

/// The connection was refused outright, which only happens before anything is sent: an open one that breaks is reset.
fn is_refused(status: &Status) -> bool {
    let causes = std::iter::successors(status.source(), |cause| (*cause).source());
    let mut errors = causes.filter_map(|cause| cause.downcast_ref::<io::Error>());
    errors.any(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use setpoint_api::setpoint::v1 as pb;
    use setpoint_api::status::refused;

    use super::*;

    fn said(reason: pb::Reason) -> Status {
        let error = pb::Error { reason: reason.into(), retry_after_ms: 70, ..Default::default() };
        refused(Code::Unavailable, &error)
    }

    fn is_again(next: &Next) -> bool {
        matches!(next, Next::Again { .. })
    }

    #[test]
    fn a_write_without_an_id_is_tried_again_only_if_it_was_surely_not_done() {
        for ambiguous in
            [said(pb::Reason::Timeout), said(pb::Reason::Unavailable), Status::unavailable("reset")]
        {
            let judged = judge(&ambiguous, Safety::Once);
            assert_eq!(judged.next, Next::Stop, "{ambiguous:?}");
            assert!(judged.perhaps_done && is_again(&judge(&ambiguous, Safety::Repeatable).next));
        }
        for sure in [said(pb::Reason::TooManyRequests), Status::resource_exhausted("busy")] {
            let judged = judge(&sure, Safety::Once);
            assert!(is_again(&judged.next) && !judged.perhaps_done, "{sure:?}");
        }
    }

    #[test]
    fn a_connection_that_was_refused_carried_nothing() {
        let failed = |kind: io::ErrorKind| {
            let wire = crate::wire::WireError::new(io::Error::from(kind));
            Status::from_error(Box::new(wire))
        };
        let judged = judge(&failed(io::ErrorKind::ConnectionRefused), Safety::Once);
        assert!(is_again(&judged.next) && judged.refused && !judged.perhaps_done, "{judged:?}");
        let judged = judge(&failed(io::ErrorKind::ConnectionReset), Safety::Once);
        assert!(judged.next == Next::Stop && !judged.refused && judged.perhaps_done, "{judged:?}");
    }

    #[test]
    fn an_answer_is_never_asked_for_again() {
        use pb::Reason as R;
        for reason in [
            R::NotFound,
            R::AlreadyExists,
            R::Conflict,
            R::Fenced,
            R::Expired,
            R::Invalid,
            R::Forbidden,
            R::Unauthenticated,
            R::QuotaExceeded,
            R::NoHeadroom,
            R::TooLarge,
            R::TooSlow,
            R::Internal,
        ] {
            let judged = judge(&said(reason), Safety::Repeatable);
            assert!(matches!(judged.next, Next::Answer(_)), "{reason:?}");
            assert_eq!((judged.health, judged.perhaps_done), (Health::Well, false));
        }
        for code in [Code::InvalidArgument, Code::Unimplemented, Code::PermissionDenied, Code::OutOfRange] {
            assert!(
                matches!(judge(&Status::new(code, ""), Safety::Repeatable).next, Next::Answer(_)),
                "{code:?}"
            );
        }
    }

    #[test]
    fn hints_are_taken_along_and_an_overload_is_everybodys() {
        let wait = Some(Duration::from_millis(70));
        assert_eq!(
            judge(&said(pb::Reason::TooManyRequests), Safety::Once).next,
            Next::Again { not_before: wait, everywhere: true }
        );
        assert_eq!(
            judge(&said(pb::Reason::NotLeader), Safety::Repeatable).next,
            Next::Again { not_before: wait, everywhere: false }
        );
    }
}
