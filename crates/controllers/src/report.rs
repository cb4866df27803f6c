//! What controllers say of what they tried last, and of what went wrong: the same words in every status.

use std::error::Error;

use setpoint_runtime::{ReconcileError, Run};
use setpoint_types::kinds::{LastAction, LastError};
use setpoint_types::object::ObjectReference;
use setpoint_types::{Revision, Timestamp};

/// Bytes of a message that are kept.
const MESSAGE_BYTES_MAX: usize = 512;

/// Something that was done.
pub fn action(run: &Run, action: &str, object: ObjectReference, revision: Revision) -> LastAction {
    LastAction {
        action: action.to_owned(),
        object,
        attempt: run.attempt(),
        operation: run.id().to_string(),
        time: run.now(),
        revision,
    }
}

/// Notes what went wrong, unless it is what went wrong before, or what goes right with the next look: others were faster, or a
/// server did not answer.
pub fn note(last: &mut Option<LastError>, error: &ReconcileError, now: Timestamp) {
    let Some((reason, message)) = told(error) else { return };
    let is_known = last.as_ref().is_some_and(|known| known.reason == reason && known.message == message);
    if !is_known {
        *last = Some(LastError { reason, message, time: now });
    }
}

fn told(error: &ReconcileError) -> Option<(String, String)> {
    let (reason, cause) = match error {
        ReconcileError::NotHolder | ReconcileError::Vanished { .. } => return None,
        ReconcileError::Terminal { reason, cause } => (reason.clone(), cause),
        ReconcileError::Retry { cause, .. } => {
            let call = cause.downcast_ref::<setpoint_client::Error>()?;
            // A conflict is no failure, and what is transient is told by nobody's status, but by metrics.
            if call.is_conflict() || call.is_already_exists() || call.is_transient() {
                return None;
            }
            (call.reason().map_or_else(|| "Failed".to_owned(), |it| format!("{it:?}")), cause)
        }
    };
    let mut message = chain(cause.as_ref());
    message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
    Some((reason, message))
}

fn chain(error: &(dyn Error + Send + Sync + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text.push_str(": ");
        text.push_str(&error.to_string());
        next = error.source();
    }
    text
}
