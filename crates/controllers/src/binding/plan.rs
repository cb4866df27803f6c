//! What is to be done about one binding: pure, from the binding and its replica.
//!
//! | it is | then |
//! |---|---|
//! | `Unknown`, and nobody has said until when | nothing: the node monitor holds it back, or has yet to confirm it |
//! | `Unknown`, within its grace | nothing: its node may come back |
//! | `Unknown`, and the grace is over | `ReleaseRequested`, with what was seen |
//! | `ReleaseRequested` | the server is asked to release it, again and again: it knows when that is safe |
//! | `Bound`, stopped, and nobody released it | the same, after a while: its agent may have ended in between |
//! | not released, and its replica is gone | `ReleaseRequested`: what it has reserved is nobody's |
//! | released or gone, and its replica still waits for it | the replica's finalizer is taken away |
//!
//! A node that comes back makes an `Unknown` binding `Bound` again (the node monitor); a release that was asked for goes on.

use std::time::Duration;

use serde::Serialize;
use setpoint_types::Timestamp;
use setpoint_types::kinds::{BindingState, BindingStatus};
use setpoint_types::object::Evidence;

use super::observe::Observed;
use crate::facts::BINDING_FINALIZER;
use crate::replica::replacement_of;

/// An agent that stopped a replica releases it at once; after this somebody else does.
const STOPPED_PATIENCE_MS: u64 = 10_000;
/// Between two looks at whether an agent that is there has stopped a replica: its word wakes us, too.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// Signals that are kept.
const EVIDENCE_MAX: usize = 8;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    pub step: Step,
    /// When something is due though nothing changes.
    #[serde(skip)]
    pub again_after: Option<Duration>,
}

/// One step. Each leaves a record, by which the next is found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Step {
    Nothing,
    /// The binding is to give its node back.
    RequestRelease {
        status: Box<BindingStatus>,
    },
    /// The server is asked to take the node back.
    Release,
    /// The replica need not wait any more.
    FreeReplica {
        finalizer: String,
    },
}

impl Plan {
    fn of(step: Step) -> Self {
        Self { step, again_after: None }
    }

    fn wait_until(time: Timestamp, now: Timestamp) -> Self {
        let again_after = Some(Duration::from_millis(time.0.saturating_sub(now.0).max(1)));
        Self { step: Step::Nothing, again_after }
    }
}

pub fn plan(observed: &Observed) -> Plan {
    if observed.is_stuck() {
        let free = Step::FreeReplica { finalizer: BINDING_FINALIZER.to_owned() };
        return Plan::of(if observed.is_confirmed { free } else { Step::Nothing });
    }
    let Some(binding) = &observed.binding else { return Plan::of(Step::Nothing) };
    let status = binding.status.clone().unwrap_or_default();
    let now = observed.now;
    match status.state {
        BindingState::Released => Plan::of(Step::Nothing),
        BindingState::ReleaseRequested => Plan::of(Step::Release),
        BindingState::Bound | BindingState::Unknown if observed.is_widowed() => match observed.is_confirmed {
            true => {
                request(observed, status, "ReplicaGone", "its replica is gone, and it has reserved something")
            }
            false => Plan::of(Step::Nothing),
        },
        BindingState::Bound => match status.stopped {
            Some(stopped) if now.0 >= stopped.0 + STOPPED_PATIENCE_MS => Plan::of(Step::Release),
            Some(stopped) => Plan::wait_until(Timestamp(stopped.0 + STOPPED_PATIENCE_MS), now),
            None => Plan::of(Step::Nothing),
        },
        BindingState::Unknown => match status.grace_until {
            Some(until) if now >= until => {
                request(observed, status, "GraceExpired", "its node was out of reach for too long")
            }
            Some(until) => Plan::wait_until(until, now),
            None => Plan::of(Step::Nothing),
        },
    }
}

/// The release is asked for: since when, why, by what evidence, and which replica makes it good.
fn request(observed: &Observed, before: BindingStatus, reason: &str, message: &str) -> Plan {
    let mut status = before;
    let revision = observed.binding.as_ref().map(|binding| binding.metadata.revision).unwrap_or_default();
    let value = format!("{:?} since {}", status.state, status.since.0);
    let seen = Evidence { signal: "binding".to_owned(), value, time: observed.now, revision };
    if status.evidence.len() < EVIDENCE_MAX {
        status.evidence.push(seen);
    }
    status.state = BindingState::ReleaseRequested;
    status.since = observed.now;
    status.reason = reason.to_owned();
    status.message = message.to_owned();
    if let (Some(replica), Some(binding)) = (&observed.replica, &observed.binding)
        && !replica.is_going
        && !replica.set.is_empty()
        && !observed.is_widowed()
    {
        status.replacement = replacement_of(&replica.set, binding.metadata.uid.as_str());
    }
    Plan::of(Step::RequestRelease { status: Box::new(status) })
}
