//! Why a state could not be brought about, and whether trying again may help.

use setpoint_client::{Error, FieldConflict};
use setpoint_types::object::OwnerReference;
use setpoint_types::{FieldProblem, ObjectKey, Uid};

/// What stands in the way. [`EnsureError::is_terminal`] tells what only a person, or a change of the object, can mend.
#[derive(Debug, thiserror::Error)]
pub enum EnsureError {
    /// The call brought no result.
    #[error(transparent)]
    Call(#[from] Error),
    /// Two owners want the same name.
    #[error("{object} is controlled by {} {}: give it up there, or choose another name", .owner.kind, .owner.name)]
    AlreadyOwned { object: ObjectKey, owner: Box<OwnerReference> },
    /// It was made by somebody else, and may not be adopted.
    #[error("{object} exists without a controller, and may not be adopted: {why}")]
    NotAdoptable { object: ObjectKey, why: &'static str },
    /// It is going; what is wanted can be made once it is gone.
    #[error("{object} is still there, being deleted")]
    Terminating { object: ObjectKey, uid: Uid },
    /// It came or went between two looks.
    #[error("{object} changed while it was looked at")]
    Moved { object: ObjectKey },
    /// Others decide fields that this manager wants to be different.
    #[error("{} fields of {object} are decided by others, among them {} by {:?}", .conflicts.len(), .conflicts[0].path, .conflicts[0].manager)]
    FieldsTaken { object: ObjectKey, conflicts: Vec<FieldConflict> },
    /// What was asked for makes no sense; nothing was sent.
    #[error("{object} cannot be ensured: {problem}")]
    Senseless { object: ObjectKey, problem: &'static str },
    /// An object that is not of the type it is read as.
    #[error("{object} cannot be read: {problem}")]
    Unreadable { object: ObjectKey, problem: FieldProblem },
}

impl EnsureError {
    /// Trying the same again will not help: the object, or what stands in its way, has to change first.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::AlreadyOwned { .. }
            | Self::NotAdoptable { .. }
            | Self::FieldsTaken { .. }
            | Self::Senseless { .. }
            | Self::Unreadable { .. } => true,
            Self::Terminating { .. } | Self::Moved { .. } => false,
            // What is not there any more may be on its way back, or its end on its way into the cache.
            Self::Call(error) if error.is_not_found() || error.is_fenced() => false,
            Self::Call(error) => !error.is_transient() && !error.is_conflict(),
        }
    }

    /// This process is no longer the one that may write: stop.
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Call(error) if error.is_fenced())
    }

    /// Somebody else was faster: look and decide again, soon.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Moved { .. }) || matches!(self, Self::Call(error) if error.is_conflict())
    }

    /// The call's error, if one was made.
    pub fn call(&self) -> Option<&Error> {
        match self {
            Self::Call(error) => Some(error),
            _ => None,
        }
    }

    /// The object has another uid than was asked for: the one that was meant is gone.
    pub(crate) fn is_other_uid(error: &Error) -> bool {
        error.is_conflict()
            && error.refusal().is_some_and(|it| it.problems.iter().any(|at| at.path == ".metadata.uid"))
    }
}
