//! One call: attempts, the waits between them, and the deadline over all of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use setpoint_types::FieldProblem;
use tokio::time::{Instant, sleep, timeout};
use tonic::Status;

use crate::attempt::{Health, Next, Safety, judge};
use crate::entropy::Entropy;
use crate::error::Error;
use crate::pool::{Pool, Purpose, Slot};
use crate::settings::Settings;
use crate::wire::Wire;

/// What is asked for, for the one who asks and for the choice of an endpoint.
#[derive(Clone, Debug)]
pub struct Call {
    /// `get`, `create`
    pub operation: &'static str,
    /// `Workload default/web`
    pub target: String,
    pub purpose: Purpose,
    pub safety: Safety,
    /// How long the server may wait before it answers, at the request's own wish.
    pub server_wait: Duration,
    /// On a connection of its own.
    pub apart: bool,
}

impl Call {
    pub fn read(operation: &'static str, target: impl ToString) -> Self {
        let target = target.to_string();
        Self {
            operation,
            target,
            purpose: Purpose::Read,
            safety: Safety::Repeatable,
            server_wait: Duration::ZERO,
            apart: false,
        }
    }

    /// The same on a connection of its own: what is not read of it holds up nothing else.
    pub fn apart(mut self) -> Self {
        self.apart = true;
        self
    }

    pub fn write(operation: &'static str, target: impl ToString, safety: Safety) -> Self {
        Self { purpose: Purpose::Write, safety, ..Self::read(operation, target) }
    }

    pub fn unreadable(&self, problem: impl ToString) -> Error {
        let (operation, target) = (self.operation, self.target.clone());
        Error::Unreadable { operation, target, problem: problem.to_string() }
    }

    pub fn bad_field(&self, problem: &FieldProblem) -> Error {
        self.unreadable(problem)
    }
}

/// What all clones of a client share.
pub struct Caller {
    pub pool: Arc<Pool>,
    pub settings: Settings,
    pub entropy: Entropy,
    /// Somebody has answered one of the calls, whatever it was.
    answered: AtomicBool,
}

/// Where a call stands.
#[derive(Default)]
struct Progress {
    attempts: u32,
    perhaps_done: bool,
    last: Option<Status>,
    /// Endpoints where nobody listened, since all of them were asked.
    refused: Vec<usize>,
}

impl Caller {
    pub fn new(pool: Arc<Pool>, settings: Settings, entropy: Entropy) -> Self {
        Self { pool, settings, entropy, answered: AtomicBool::new(false) }
    }

    /// Tries until there is an answer, the deadline, or the last attempt. The slot stays taken while the caller keeps it.
    pub async fn call<T, F, Sent>(
        &self,
        call: &Call,
        patience: Duration,
        mut send: F,
    ) -> Result<(T, Slot), Error>
    where
        F: FnMut(Wire, Duration) -> Sent,
        Sent: Future<Output = Result<T, Status>>,
    {
        let deadline = Instant::now() + patience + call.server_wait;
        let mut progress = Progress::default();
        let mut avoid = Vec::new();
        loop {
            let Some(mut slot) = self.pool.slot(call.purpose, &avoid, deadline).await else {
                return Err(progress.unanswered(call));
            };
            progress.attempts += 1;
            let left = deadline.saturating_duration_since(Instant::now());
            let budget = (self.settings.timeouts.attempt + call.server_wait).min(left);
            let wire = if call.apart { slot.own_wire() } else { slot.wire() };
            let sent = timeout(budget, send(wire, budget)).await;
            let status = match sent {
                Ok(Ok(answer)) => {
                    self.answered.store(true, Ordering::Relaxed);
                    slot.report(Health::Well, None);
                    return Ok((answer, slot));
                }
                Ok(Err(status)) => status,
                Err(_) => Status::deadline_exceeded(format!("no answer within {} ms", budget.as_millis())),
            };
            let asked = slot.index;
            let wait = self.failed(call, &mut progress, slot, status)?;
            let is_last = progress.attempts >= self.settings.attempts_max || self.is_hopeless(&mut progress);
            if is_last || Instant::now() + wait >= deadline {
                return Err(progress.unanswered(call));
            }
            avoid = [&progress.refused[..], &[asked]].concat();
            sleep(wait).await;
        }
    }

    /// Nobody has ever answered, and nobody listens anywhere.
    fn is_hopeless(&self, progress: &mut Progress) -> bool {
        if progress.refused.len() < self.settings.endpoints.len() {
            return false;
        }
        progress.refused.clear();
        progress.attempts >= self.settings.refusals_max && !self.answered.load(Ordering::Relaxed)
    }

    /// How long to wait before the next attempt, or what the call ends with.
    fn failed(
        &self,
        call: &Call,
        progress: &mut Progress,
        mut slot: Slot,
        status: Status,
    ) -> Result<Duration, Error> {
        let judgement = judge(&status, call.safety);
        progress.perhaps_done |= judgement.perhaps_done;
        if judgement.refused && !progress.refused.contains(&slot.index) {
            progress.refused.push(slot.index);
        }
        if judgement.health != Health::Unreachable {
            self.answered.store(true, Ordering::Relaxed);
        }
        tracing::debug!(
            operation = call.operation,
            target = call.target,
            attempt = progress.attempts,
            code = ?status.code(),
            error = status.message(),
            "attempt failed"
        );
        progress.last = Some(status);
        let (not_before, everywhere) = match judgement.next {
            Next::Answer(refusal) => {
                slot.report(judgement.health, None);
                let (operation, target) = (call.operation, call.target.clone());
                return Err(Error::Refused { operation, target, refusal });
            }
            Next::Stop => {
                slot.report(judgement.health, None);
                return Err(progress.unanswered(call));
            }
            Next::Again { not_before, everywhere } => (not_before, everywhere),
        };
        slot.report(judgement.health, not_before);
        let wait = self.settings.backoff.wait(progress.attempts - 1, self.entropy.fraction());
        Ok(if everywhere { wait.max(not_before.unwrap_or_default()) } else { wait })
    }
}

impl Progress {
    fn unanswered(&mut self, call: &Call) -> Error {
        let nobody = || Status::unavailable("no endpoint may be asked before the deadline");
        Error::Unanswered {
            operation: call.operation,
            target: call.target.clone(),
            attempts: self.attempts,
            ambiguous: self.perhaps_done && call.purpose == Purpose::Write,
            last: Box::new(self.last.take().unwrap_or_else(nobody).into()),
        }
    }
}
