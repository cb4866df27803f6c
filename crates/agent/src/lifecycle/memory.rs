//! What of a life has to survive the agent: written down before anything is done that depends on it.

use serde::{Deserialize, Serialize};
use setpoint_types::Timestamp;
use setpoint_types::kinds::Exit;

use crate::runtime::{Cause, Ended};

/// The part of a life that is written down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// The server knows that the agent has it.
    pub accepted: bool,
    /// Of the newest run; 0 before the first. Goes up before a run is begun, so that none is begun twice.
    pub number: u32,
    /// Of the newest run whose end was taken in: it is not counted again.
    pub ended: u32,
    pub restarts: u32,
    /// Starts in a row that did not last.
    pub in_a_row: u32,
    pub last_exit: Option<Exit>,
    /// Nothing runs, and nothing will.
    pub over: Option<Outcome>,
    pub times: Times,
}

/// When it came to where it is, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    pub starting: Option<Timestamp>,
    pub ready: Option<Timestamp>,
    pub stopping: Option<Timestamp>,
    pub ended: Option<Timestamp>,
}

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    Succeeded,
    Failed,
    /// It was no longer wanted.
    Stopped,
}

/// What made the agent end a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    Unwanted,
    /// A probe said so.
    Probe,
    /// The lease of its node ran out, and it may not outlive that.
    Fenced,
    /// Its own deadline has passed.
    Deadline,
}

/// An end as users see it. `why` is what the agent ended it for, if it did.
pub fn exit(ended: &Ended, why: Option<(Why, &str)>) -> Exit {
    let (reason, message) = match (ended.cause, why) {
        (Cause::Fenced, _) | (_, Some((Why::Fenced, _))) => ("Fenced", "the lease of its node ran out"),
        (_, Some((Why::Probe, message))) => ("ProbeFailed", message),
        (_, Some((Why::Deadline, _))) => ("DeadlineExceeded", "its deadline has passed"),
        (Cause::OutOfMemory, _) => ("OutOfMemory", "it used more memory than it may: raise limits.memory"),
        (Cause::NotStarted, _) => ("NotStarted", ended.message.as_str()),
        (Cause::Lost, _) => ("Lost", ended.message.as_str()),
        (Cause::Killed, _) => ("Killed", "it did not end within its termination grace"),
        (Cause::Itself, Some((Why::Unwanted, _))) => ("Stopped", ""),
        (Cause::Itself, None) if ended.code == Some(0) => ("Completed", ""),
        (Cause::Itself, None) if ended.signal.is_some() => ("Killed", "a signal ended it"),
        (Cause::Itself, None) => ("Error", ""),
    };
    Exit {
        code: ended.code,
        signal: ended.signal,
        reason: reason.to_owned(),
        message: message.to_owned(),
        started: ended.started,
        ended: ended.ended,
    }
}
