//! How a run ended, and what it is told so that it does.

use serde::{Deserialize, Serialize};
use setpoint_types::Timestamp;

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub cause: Cause,
    pub message: String,
    pub started: Timestamp,
    pub ended: Timestamp,
}

impl Ended {
    /// By SIGKILL, of whoever.
    pub fn killed_by_a_signal(&self) -> bool {
        self.cause == Cause::Itself && self.signal == Some(9)
    }
}

/// What ended a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The process did, or a signal of whoever.
    #[default]
    Itself,
    /// It had more memory than it may.
    OutOfMemory,
    /// It could not be started.
    NotStarted,
    /// It may not outlive the lease of its node, and that ran out.
    Fenced,
    /// It was killed because asking took too long.
    Killed,
    /// Nobody saw how: the machine was started anew, or the shim was killed.
    Lost,
}

/// What a run is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Ask the process to end.
    Terminate,
    /// Kill all of it.
    Kill,
}

impl Order {
    /// As the shim is told.
    pub fn byte(self) -> u8 {
        match self {
            Self::Terminate => b'T',
            Self::Kill => b'K',
        }
    }

    pub fn of(byte: u8) -> Option<Self> {
        [Self::Terminate, Self::Kill].into_iter().find(|order| order.byte() == byte)
    }
}
