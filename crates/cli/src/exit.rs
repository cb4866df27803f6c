//! How a command ends, for scripts. The numbers are documented in docs/cli.md and do not change.

use std::process::ExitCode;

/// The exit code of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Done,
    /// The answer is no: `diff` found differences, `auth can-i` says no, a rollout has failed.
    No,
    /// The command line, a file or an object is wrong: the same again will not do.
    Usage,
    NotFound,
    /// Somebody else decides that, or was faster.
    Conflict,
    /// Not allowed, or nobody knows who asks.
    Forbidden,
    /// No server answered.
    Unreachable,
    /// It was waited for as long as was asked for.
    Timeout,
    /// Anything else.
    Failed,
    /// As the command did that was run in a replica.
    Command(u8),
}

impl Exit {
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::No => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Conflict => 4,
            Self::Forbidden => 5,
            Self::Unreachable => 6,
            Self::Timeout => 7,
            Self::Failed => 8,
            Self::Command(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}
