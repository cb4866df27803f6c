//! What every service asks before it does anything.

use std::fmt;
use std::sync::Arc;

use setpoint_access::{
    AuditEntry, AuditLog, AuditResult, Authenticator, Authorizer, Decision, EVERYTHING, Need, Proof, Verb,
};
use setpoint_api::setpoint::v1::Reason;
use setpoint_consensus::Clock;
use tonic::{Request, Status};

use super::caller::Caller;
use super::pass::Pass;
use super::standing::Standing;
use crate::objects::Refusal;

/// Decides and remembers. Clones share it.
#[derive(Clone)]
pub struct Gate {
    /// None while nobody is asked and nothing recorded.
    guards: Option<Arc<Guards>>,
}

pub(super) struct Guards {
    authorizer: Arc<Authorizer>,
    /// None where nobody is asked who they are.
    authenticator: Option<Arc<Authenticator>>,
    audit: Option<AuditLog>,
    clock: Arc<dyn Clock>,
}

/// Why a request is not let in, or a stream does not go on: one sentence, with the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    reason: Reason,
    text: String,
}

impl Denied {
    fn of(caller: &Caller, need: &Need) -> Self {
        Self::forbidden(Decision::denied(&caller.principal, need.verb, &need.target()).to_string())
    }

    fn forbidden(text: String) -> Self {
        Self { reason: Reason::Forbidden, text }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        Self::new(denied.reason, denied.text)
    }
}

impl From<Denied> for Status {
    fn from(denied: Denied) -> Self {
        Refusal::from(denied).into()
    }
}

impl Gate {
    /// Lets in everybody and records nothing.
    pub fn open() -> Self {
        Self { guards: None }
    }

    pub fn new(
        authorizer: Arc<Authorizer>,
        authenticator: Option<Arc<Authenticator>>,
        audit: Option<AuditLog>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let needed = authorizer.is_on() || audit.is_some();
        Self { guards: needed.then(|| Arc::new(Guards { authorizer, authenticator, audit, clock })) }
    }

    pub fn is_open(&self) -> bool {
        self.guards.is_none()
    }

    /// Whether anybody is asked who they are.
    pub fn is_enforced(&self) -> bool {
        self.guards.as_ref().is_some_and(|guards| guards.authorizer.is_on())
    }

    /// What would be decided. Nothing is remembered of it: nobody tries anything.
    pub fn decide(&self, caller: &Caller, need: &Need) -> Decision {
        match &self.guards {
            Some(guards) => guards.authorizer.decide(&caller.principal, need),
            None => Decision::Off,
        }
    }

    /// Who sent a request, if that matters here.
    pub fn caller<T>(&self, request: &Request<T>) -> Caller {
        if self.is_open() { Caller::default() } else { Caller::of(request) }
    }

    /// The standing of whoever sent a request, for as long as a stream lasts.
    pub fn standing<T>(&self, request: &Request<T>) -> Standing {
        match &self.guards {
            Some(guards) if guards.authorizer.is_on() => {
                let proof = request.extensions().get::<Proof>().cloned();
                Standing::new(guards.clone(), Caller::of(request), proof)
            }
            _ => Standing::default(),
        }
    }

    /// Whether all of it is allowed. `needs` is not asked for where that is clear.
    pub fn check(&self, caller: &Caller, needs: impl FnOnce() -> Vec<Need>) -> Result<(), Denied> {
        match &self.guards {
            Some(guards) if guards.authorizer.is_on() => guards.check(caller, "", &needs()),
            _ => Ok(()),
        }
    }

    /// The same for a request that writes: whatever comes of it is to be told to the pass. `operation` is the id that
    /// the request carries.
    pub fn enter(
        &self,
        caller: &Caller,
        operation: &str,
        needs: impl FnOnce() -> Vec<Need>,
    ) -> Result<Pass, Denied> {
        let Some(guards) = &self.guards else { return Ok(Pass::default()) };
        let needs = needs();
        guards.check(caller, operation, &needs)?;
        Ok(match guards.audit {
            Some(_) => Pass::new(guards.clone(), caller.clone(), operation, needs),
            None => Pass::default(),
        })
    }

    /// Whether somebody may do anything with objects of this kind.
    pub fn knows(&self, caller: &Caller, kind: &str) -> bool {
        self.guards.as_ref().is_none_or(|guards| guards.authorizer.knows(&caller.principal, kind))
    }

    /// Says no, and remembers it.
    pub fn deny(&self, caller: &Caller, need: &Need) -> Denied {
        let denied = Denied::of(caller, need);
        if let Some(guards) = &self.guards {
            guards.denied(caller, "", need, denied.to_string());
        }
        denied
    }
}

impl Guards {
    /// What changes when roles do.
    pub(super) fn version(&self) -> u64 {
        self.authorizer.version()
    }

    /// Whether somebody is still who they were.
    pub(super) fn check_proof(&self, caller: &Caller, proof: &Proof) -> Result<(), Denied> {
        let Some(authenticator) = &self.authenticator else { return Ok(()) };
        authenticator.check(proof, self.clock.now()).map_err(|refusal| {
            let text = format!("{refusal}; {} cannot go on with it, ask for another one", caller.principal);
            Denied { reason: Reason::Unauthenticated, text }
        })
    }

    pub(super) fn check(&self, caller: &Caller, operation: &str, needs: &[Need]) -> Result<(), Denied> {
        // Whoever asks for nothing is answered all the same, if only with a revision.
        if needs.is_empty() && !self.authorizer.knows_any(&caller.principal) {
            let need = Need::all(Verb::List, EVERYTHING, "");
            let denied = Denied::of(caller, &need);
            self.denied(caller, operation, &need, denied.to_string());
            return Err(denied);
        }
        for need in needs {
            if let Decision::Denied(denial) = self.authorizer.decide(&caller.principal, need) {
                self.denied(caller, operation, need, denial.to_string());
                return Err(Denied::forbidden(denial.to_string()));
            }
        }
        Ok(())
    }

    fn denied(&self, caller: &Caller, operation: &str, need: &Need, reason: String) {
        if let Some(audit) = &self.audit {
            // One that finds no place is counted.
            audit.record_now(self.entry(caller, operation, need, AuditResult::Denied { reason }));
        }
    }

    fn entry(&self, caller: &Caller, operation: &str, need: &Need, result: AuditResult) -> AuditEntry {
        let (principal, trace) = (caller.principal.clone(), caller.trace.clone());
        let entry = AuditEntry::of(self.clock.now(), principal, need, result);
        AuditEntry { operation: operation.to_owned(), source: caller.source, trace, ..entry }
    }

    pub(super) async fn record(
        &self,
        caller: &Caller,
        operation: &str,
        needs: &[Need],
        result: &AuditResult,
    ) {
        let Some(audit) = &self.audit else { return };
        for need in needs.iter().filter(|need| need.verb.writes()) {
            audit.record(self.entry(caller, operation, need, result.clone())).await;
        }
    }

    /// The same without waiting.
    pub(super) fn record_now(&self, caller: &Caller, operation: &str, needs: &[Need], result: &AuditResult) {
        let Some(audit) = &self.audit else { return };
        for need in needs.iter().filter(|need| need.verb.writes()) {
            audit.record_now(self.entry(caller, operation, need, result.clone()));
        }
    }
}
