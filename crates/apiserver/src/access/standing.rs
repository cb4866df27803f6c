//! Whether what lasts is still allowed: while a stream is open a role may be withdrawn, a token revoked, a certificate
//! expire.
//!
//! A stream asks before it sends anything, which costs next to nothing while the roles are the same; one that has nothing
//! to send asks once in a while. So it ends at the latest [`LOOK_EVERY`] after this node knows of the change, and what came
//! after that was not sent (A13).

use std::sync::Arc;
use std::time::Duration;

use setpoint_access::{Need, Proof};
use tokio::time::{Instant, sleep_until};

use super::caller::Caller;
use super::gate::{Denied, Guards};

/// How long a stream that has nothing to send goes on unasked.
pub const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Of whoever opened a stream. Empty where everybody may do everything.
#[derive(Default)]
pub struct Standing(Option<Box<Open>>);

struct Open {
    guards: Arc<Guards>,
    caller: Caller,
    proof: Option<Proof>,
    /// The version of the roles that what was asked last was decided by.
    version: u64,
    looked: Instant,
}

impl Standing {
    pub(super) fn new(guards: Arc<Guards>, caller: Caller, proof: Option<Proof>) -> Self {
        let (version, looked) = (guards.version(), Instant::now());
        Self(Some(Box::new(Open { guards, caller, proof, version, looked })))
    }

    /// Whether all of it is allowed to whoever this is, who still has to be that.
    pub fn check(&self, needs: impl FnOnce() -> Vec<Need>) -> Result<(), Denied> {
        let Some(open) = &self.0 else { return Ok(()) };
        if let Some(proof) = &open.proof {
            open.guards.check_proof(&open.caller, proof)?;
        }
        open.guards.check(&open.caller, "", &needs())
    }

    /// The same for what was allowed before: only looks if that may have changed.
    pub fn check_again(&mut self, needs: impl FnOnce() -> Vec<Need>) -> Result<(), Denied> {
        if self.is_in_doubt() { self.check(needs) } else { Ok(()) }
    }

    /// True if something may have changed since this was last asked, and what lasts has to be checked.
    pub fn is_in_doubt(&mut self) -> bool {
        let Some(open) = &mut self.0 else { return false };
        let (version, now) = (open.guards.version(), Instant::now());
        if version == open.version && now < open.looked + LOOK_EVERY {
            return false;
        }
        (open.version, open.looked) = (version, now);
        true
    }

    /// Resolves once what was allowed is so no longer, and not before it was asked for a while.
    pub async fn lost(&mut self, needs: impl Fn() -> Vec<Need>) -> Denied {
        loop {
            match self.look_again() {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
            if let Err(denied) = self.check_again(&needs) {
                return denied;
            }
        }
    }

    /// When to ask again, if there is nothing to send before. None: never.
    pub fn look_again(&self) -> Option<Instant> {
        self.0.as_ref().map(|open| open.looked + LOOK_EVERY)
    }
}
