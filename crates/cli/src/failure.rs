//! What is said when a command cannot do what it was asked for: one or two sentences, with the next step.
//!
//! Not here: what the server says, which has its own next step (`setpoint_client::Refusal`).

use std::error::Error as _;
use std::fmt;
use std::io;

use setpoint_client::config::ConfigError;
use setpoint_client::{BuildError, Endpoint, Error, Reason};

use crate::exit::Exit;

/// Why a command could not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    exit: Exit,
    text: String,
    /// Nobody was there: it helps to know who was asked.
    nobody: bool,
}

impl Failure {
    pub fn new(exit: Exit, text: impl Into<String>) -> Self {
        Self { exit, text: text.into(), nobody: false }
    }

    /// The command line, or what it names, is wrong.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::new(Exit::Usage, text)
    }

    pub fn failed(text: impl Into<String>) -> Self {
        Self::new(Exit::Failed, text)
    }

    /// The result could not be written. Whoever closed the pipe has seen enough.
    pub fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::new(Exit::Done, ""),
            _ => Self::failed(format!("the result cannot be written: {error}")),
        }
    }

    /// Everything was said before.
    pub fn said(exit: Exit) -> Self {
        Self::new(exit, "")
    }

    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// With the addresses that were asked, if nobody answered there.
    #[must_use]
    pub fn asked(mut self, endpoints: &[Endpoint]) -> Self {
        if self.nobody && !endpoints.is_empty() {
            let endpoints: Vec<&str> = endpoints.iter().map(Endpoint::as_str).collect();
            self.text = self.text.replacen(NOBODY, &format!("{NOBODY} at {}", endpoints.join(", ")), 1);
        }
        self
    }

    /// Without the next step, for a cell of a table.
    pub fn first_sentence(&self) -> String {
        self.text.split(". ").next().unwrap_or_default().to_owned()
    }

    pub fn is_silent(&self) -> bool {
        self.text.is_empty()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::usage(chain(&error))
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        Self::usage(chain(&error))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match &error {
            Error::Refused { operation, target, refusal } => {
                let exit = exit_of(refusal.reason);
                // These name the object themselves.
                let is_whole = matches!(exit, Exit::NotFound | Exit::Forbidden);
                let before = if is_whole { String::new() } else { format!("{operation} {target}: ") };
                Self::new(exit, format!("{before}{}", refusal.message))
            }
            // A server answered, and said that it cannot now.
            Error::Unanswered { operation, target, last, ambiguous, .. } if last.source().is_none() => {
                let text = format!("{operation} {target}: {}{}", last.message(), perhaps_done(*ambiguous));
                Self::new(Exit::Unreachable, text)
            }
            Error::Unanswered { ambiguous, .. } => unanswered(&error, *ambiguous),
            Error::Unreadable { .. } | Error::Senseless { .. } => Self::failed(error.to_string()),
        }
    }
}

fn exit_of(reason: Reason) -> Exit {
    match reason {
        Reason::NotFound => Exit::NotFound,
        Reason::AlreadyExists | Reason::Conflict | Reason::Fenced => Exit::Conflict,
        Reason::Invalid | Reason::TooLarge => Exit::Usage,
        Reason::Forbidden | Reason::Unauthenticated => Exit::Forbidden,
        Reason::Unavailable | Reason::NotLeader | Reason::Timeout | Reason::TooManyRequests => {
            Exit::Unreachable
        }
        _ => Exit::Failed,
    }
}

/// No server, or none that could answer.
fn unanswered(error: &Error, ambiguous: bool) -> Failure {
    let cause = error.source().map(chain).unwrap_or_default();
    let done = perhaps_done(ambiguous);
    let text = if cause.contains("certificate") {
        format!(
            "the server's certificate, or yours, was not accepted: {}. Check certificate-authority and client-certificate of the \
             context{done}",
            last_cause(error)
        )
    } else {
        format!(
            "{NOBODY}: {}. Is it running, and is the address right? See `setpoint config view`, or name it with -s{done}",
            last_cause(error)
        )
    };
    Failure { nobody: true, ..Failure::new(Exit::Unreachable, text) }
}

const NOBODY: &str = "no server answered";

fn perhaps_done(ambiguous: bool) -> &'static str {
    if ambiguous { ". It may have been done: look before you ask again." } else { "" }
}

fn last_cause(error: &Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// An error and what caused it, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| std::error::Error::source(*error))
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
