//! A write that was let in. Whoever did it says what came of it, and the audit log has it.

use std::sync::Arc;

use setpoint_access::{AuditResult, Need};
use setpoint_api::setpoint::v1::Reason;
use setpoint_types::Revision;
use tonic::{Code, Status};

use super::caller::Caller;
use super::gate::Guards;
use crate::objects::Refusal;

/// Empty where nothing is recorded. One that is dropped without a word is of a request whose client left meanwhile: the
/// write may have been made all the same, and is recorded as such.
#[derive(Default)]
pub struct Pass(Option<Box<Open>>);

struct Open {
    guards: Arc<Guards>,
    caller: Caller,
    operation: String,
    needs: Vec<Need>,
}

/// What a failed write was refused for.
pub trait Failure {
    fn result(&self) -> AuditResult;
}

impl Failure for Refusal {
    fn result(&self) -> AuditResult {
        let message = &self.error().message;
        match self.reason() {
            Reason::Forbidden => AuditResult::Denied { reason: message.clone() },
            Reason::Timeout => AuditResult::Unknown { reason: message.clone() },
            reason => AuditResult::Refused { reason: format!("{}: {message}", reason.as_str_name()) },
        }
    }
}

impl Failure for Status {
    fn result(&self) -> AuditResult {
        let reason = self.message().to_owned();
        match self.code() {
            Code::PermissionDenied => AuditResult::Denied { reason },
            // Also where the answer was lost and not the write.
            Code::Unavailable => AuditResult::Unknown { reason },
            _ => AuditResult::Refused { reason },
        }
    }
}

impl Pass {
    pub(super) fn new(guards: Arc<Guards>, caller: Caller, operation: &str, needs: Vec<Need>) -> Self {
        Self(Some(Box::new(Open { guards, caller, operation: operation.to_owned(), needs })))
    }

    /// Whether anything is recorded at all.
    pub fn records(&self) -> bool {
        self.0.is_some()
    }

    /// What was written in the end, where that was not known before.
    pub fn wrote(&mut self, needs: impl FnOnce() -> Vec<Need>) {
        if let Some(open) = &mut self.0 {
            open.needs = needs();
        }
    }

    /// Records that something was begun that lasts. It is in the log's queue before this returns.
    pub async fn begun(mut self) {
        if let Some(open) = self.0.take() {
            open.guards.record(&open.caller, &open.operation, &open.needs, &AuditResult::Begun).await;
        }
    }

    /// Records what came of the write. `written` tells the revision, or that nothing had to be written.
    pub async fn settle<T, E: Failure>(
        mut self,
        outcome: Result<T, E>,
        written: impl FnOnce(&T) -> Option<Revision>,
    ) -> Result<T, E> {
        let Some(open) = self.0.take() else { return outcome };
        let result = match &outcome {
            Ok(done) => written(done).map(|revision| AuditResult::Done { revision }),
            Err(failure) => Some(failure.result()),
        };
        if let Some(result) = result {
            open.guards.record(&open.caller, &open.operation, &open.needs, &result).await;
        }
        outcome
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let Some(open) = self.0.take() else { return };
        let reason = "the client left before the answer; the write may have been made".to_owned();
        let result = AuditResult::Unknown { reason };
        open.guards.record_now(&open.caller, &open.operation, &open.needs, &result);
    }
}
