//! How a reconcile can fail, as far as the loop has to tell the cases apart.

use std::error::Error as StdError;
use std::time::Duration;

use setpoint_client::{Error, Reason};
use setpoint_types::FieldProblem;

use crate::ensure::EnsureError;
use crate::finalizer::FinalizerError;
use crate::sentence::sentence;

type Cause = Box<dyn StdError + Send + Sync>;

/// Why a run came to nothing. `?` makes one of every [`setpoint_client::Error`], and chooses the case by its reason.
///
/// **Guarantees**: none of them loses a key, and none makes it run without a pause. What the run has written until then stays.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// It may go better later: the key runs again after its backoff. A conflict is one, too: the plan is thrown away, and the
    /// next run decides by what is there then.
    #[error("the reconcile failed, and is tried again")]
    Retry {
        /// Whoever was asked wants to be left in peace for so long: the key does not run before, also if something changes.
        not_before: Option<Duration>,
        #[source]
        cause: Cause,
    },
    /// It will not go better by itself: the key is left alone until something changes, and shows it as a condition `Stalled`
    /// with this reason.
    #[error("the reconcile cannot succeed: {reason}")]
    Terminal {
        /// One word for programs: "BadSpec".
        reason: String,
        #[source]
        cause: Cause,
    },
    /// Something that was to be written is not there. If that is the object itself, the run is done; otherwise it is as
    /// [`ReconcileError::Retry`].
    #[error("something to be written is not there")]
    Vanished {
        #[source]
        cause: Cause,
    },
    /// This process is no longer the one that may write. The run ends quietly.
    #[error("another process has taken over")]
    NotHolder,
}

impl ReconcileError {
    /// Try again later, because of an error or a text. If the error is that of a server which says when to come back, or comes from
    /// one, not before that.
    pub fn retry(cause: impl Into<Cause>) -> Self {
        let cause = cause.into();
        Self::Retry { not_before: hint(&*cause), cause }
    }

    /// Try again after this time at the earliest: for what is outside of the cluster and says when to come back.
    pub fn retry_after(not_before: Duration, cause: impl Into<Cause>) -> Self {
        Self::Retry { not_before: Some(not_before), cause: cause.into() }
    }

    /// Give up until something changes. The reason is one word, the cause a sentence or an error.
    pub fn terminal(reason: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self::Terminal { reason: reason.into(), cause: cause.into() }
    }

    /// Somebody else was faster: what was decided is thrown away, which is ordinary.
    pub(super) fn is_conflict(&self) -> bool {
        let (Self::Retry { cause, .. } | Self::Vanished { cause }) = self else { return false };
        let first: &(dyn StdError + 'static) = &**cause;
        std::iter::successors(Some(first), |error| StdError::source(*error)).any(|error| {
            let ensured = error.downcast_ref::<EnsureError>().and_then(EnsureError::call);
            ensured.or_else(|| error.downcast_ref::<Error>()).is_some_and(Error::is_conflict)
        })
    }

    /// With its causes, in one sentence.
    pub(super) fn chain(&self) -> String {
        sentence(self)
    }
}

/// When a server wants to be asked again, if one of these errors is its answer.
fn hint(error: &(dyn StdError + 'static)) -> Option<Duration> {
    let of = |error: &(dyn StdError + 'static)| {
        let ensured = error.downcast_ref::<EnsureError>().and_then(EnsureError::call);
        ensured.or_else(|| error.downcast_ref::<Error>()).and_then(Error::retry_after)
    };
    std::iter::successors(Some(error), |error| StdError::source(*error)).find_map(of)
}

impl From<Error> for ReconcileError {
    fn from(error: Error) -> Self {
        let terminal = |reason: &str, error: Error| Self::terminal(reason, error);
        match (&error, error.reason()) {
            (Error::Senseless { .. }, _) => terminal("Senseless", error),
            (Error::Refused { .. }, Some(Reason::Fenced)) => Self::NotHolder,
            (Error::Refused { .. }, Some(Reason::NotFound)) => Self::Vanished { cause: error.into() },
            (Error::Refused { .. }, Some(Reason::Invalid)) => terminal("Invalid", error),
            (Error::Refused { .. }, Some(Reason::Forbidden)) => terminal("Forbidden", error),
            (Error::Refused { .. }, Some(Reason::TooLarge)) => terminal("TooLarge", error),
            // Conflicts, quotas, servers that are not well, and whatever a newer server says.
            _ => Self::retry(error),
        }
    }
}

impl From<EnsureError> for ReconcileError {
    fn from(error: EnsureError) -> Self {
        match error {
            EnsureError::Call(error) => error.into(),
            error if error.is_terminal() => Self::terminal("NotEnsured", error),
            error => Self::retry(error),
        }
    }
}

/// Whose cleanup fails with this error, too.
impl From<FinalizerError<Self>> for ReconcileError {
    fn from(error: FinalizerError<Self>) -> Self {
        match error {
            FinalizerError::Add { source, .. } | FinalizerError::Remove { source, .. } => source.into(),
            FinalizerError::CleanUp { source, .. } => source,
        }
    }
}

/// An object that cannot be read: it has to change first.
impl From<FieldProblem> for ReconcileError {
    fn from(problem: FieldProblem) -> Self {
        Self::terminal("Unreadable", problem.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(reason: Reason) -> ReconcileError {
        call(reason, None).into()
    }

    fn call(reason: Reason, retry_after: Option<Duration>) -> Error {
        let refusal = setpoint_client::Refusal {
            reason,
            message: "m".into(),
            problems: Vec::new(),
            conflicts: Vec::new(),
            object: None,
            revision: setpoint_types::Revision::NONE,
            retry_after,
            held: None,
            headroom: None,
        };
        Error::Refused { operation: "update", target: "Node a".into(), refusal: Box::new(refusal) }
    }

    #[test]
    fn a_server_that_says_when_to_come_back_is_heard_however_its_error_was_wrapped() {
        #[derive(Debug, thiserror::Error)]
        #[error("the outer")]
        struct Outer(#[source] Error);

        let busy = || call(Reason::QuotaExceeded, Some(Duration::from_secs(7)));
        let wrapped = [
            busy().into(),
            EnsureError::from(busy()).into(),
            ReconcileError::retry(EnsureError::from(busy())),
            ReconcileError::retry(Outer(busy())),
            ReconcileError::retry_after(Duration::from_secs(7), "the provider is busy"),
        ];
        for error in wrapped {
            let ReconcileError::Retry { not_before, .. } = &error else { panic!("{error:?}") };
            assert_eq!(*not_before, Some(Duration::from_secs(7)), "{error:?}");
        }
        let ReconcileError::Retry { not_before: None, .. } = refused(Reason::Conflict) else { panic!() };
    }

    #[test]
    fn the_reason_of_a_refusal_decides_what_follows() {
        for reason in [Reason::Conflict, Reason::AlreadyExists, Reason::QuotaExceeded, Reason::Unavailable] {
            assert!(matches!(refused(reason), ReconcileError::Retry { .. }), "{reason:?}");
        }
        for reason in [Reason::Invalid, Reason::Forbidden, Reason::TooLarge] {
            assert!(matches!(refused(reason), ReconcileError::Terminal { .. }), "{reason:?}");
        }
        assert!(matches!(refused(Reason::Fenced), ReconcileError::NotHolder));
        assert!(matches!(refused(Reason::NotFound), ReconcileError::Vanished { .. }));
    }

    #[test]
    fn a_chain_names_every_cause_once() {
        let error = ReconcileError::terminal("BadSpec", "the zone is not known");
        assert_eq!(error.chain(), "the reconcile cannot succeed: BadSpec: the zone is not known");
    }
}
