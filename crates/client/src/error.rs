//! What can go wrong with a call.

use std::fmt;
use std::ops::Deref;

use tonic::Status;

use crate::refusal::{Reason, Refusal};

/// A call that brought no result. Branch on [`Error::reason`], or on the `is_…` that names your case.
///
/// **Guarantees**: [`Error::Refused`] means that nothing was changed. Any other error of a write may come after it was done;
/// [`Error::is_ambiguous`] says so.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server understood, and does not do it. Nothing was changed.
    #[error("{operation} {target} was refused: {refusal}")]
    Refused { operation: &'static str, target: String, refusal: Box<Refusal> },
    /// No attempt brought an answer that counts, until the deadline or the last attempt.
    #[error("{operation} {target} got no answer in {attempts} attempts{}", if *ambiguous { ", and may have been done" } else { "" })]
    Unanswered {
        operation: &'static str,
        target: String,
        attempts: u32,
        /// It may have been done.
        ambiguous: bool,
        #[source]
        last: Box<Last>,
    },
    /// There was an answer, but not one this client understands. A write was done.
    #[error("the answer to {operation} {target} cannot be read: {problem}")]
    Unreadable { operation: &'static str, target: String, problem: String },
    /// The request makes no sense, and was not sent.
    #[error("{operation} {target} cannot be asked for: {problem}")]
    Senseless { operation: &'static str, target: String, problem: &'static str },
}

/// The status that the last attempt ended with. Reads as what was said, where a [`Status`] reads as the fields it was said in.
#[derive(Debug)]
pub struct Last(Status);

impl From<Status> for Last {
    fn from(status: Status) -> Self {
        Self(status)
    }
}

impl Deref for Last {
    type Target = Status;

    fn deref(&self) -> &Status {
        &self.0
    }
}

impl fmt::Display for Last {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.message() {
            "" => f.write_str(self.0.code().description()),
            message => f.write_str(message),
        }
    }
}

impl std::error::Error for Last {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.0)
    }
}

impl Error {
    /// What the server said, if it said anything.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some((**refusal).clone()),
            Self::Unanswered { last, .. } => Some(Refusal::of(last)),
            Self::Unreadable { .. } | Self::Senseless { .. } => None,
        }
    }

    pub fn reason(&self) -> Option<Reason> {
        match self {
            Self::Refused { refusal, .. } => Some(refusal.reason),
            Self::Unanswered { last, .. } => Some(Refusal::of(last).reason),
            Self::Unreadable { .. } | Self::Senseless { .. } => None,
        }
    }

    /// The server asks not to be asked again before this time is over.
    pub fn retry_after(&self) -> Option<std::time::Duration> {
        self.refusal().and_then(|refusal| refusal.retry_after)
    }

    pub fn is_not_found(&self) -> bool {
        self.reason() == Some(Reason::NotFound)
    }

    pub fn is_already_exists(&self) -> bool {
        self.reason() == Some(Reason::AlreadyExists)
    }

    /// Somebody else was faster: read and decide again.
    pub fn is_conflict(&self) -> bool {
        self.reason() == Some(Reason::Conflict)
    }

    /// This process is no longer the one that may write: stop.
    pub fn is_fenced(&self) -> bool {
        self.reason() == Some(Reason::Fenced)
    }

    /// What was asked for is no longer kept: begin with the current state.
    pub fn is_expired(&self) -> bool {
        matches!(self.reason(), Some(Reason::Expired | Reason::TooSlow))
    }

    /// The same call may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Refused { refusal, .. } => refusal.reason.is_transient(),
            Self::Unanswered { .. } => true,
            Self::Unreadable { .. } | Self::Senseless { .. } => false,
        }
    }

    /// It is a write, and may have been done.
    pub fn is_ambiguous(&self) -> bool {
        match self {
            Self::Unanswered { ambiguous, .. } => *ambiguous,
            Self::Unreadable { .. } => true,
            Self::Refused { .. } | Self::Senseless { .. } => false,
        }
    }
}
