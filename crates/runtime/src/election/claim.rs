//! What a process may act on: a claim to a shard, and a run that uses it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_types::object::Fence;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::shard::ShardId;
use super::table::Table;

/// A shard that this process may work on, until its time is up on the local clock. Cheap to clone; clones are the same.
///
/// **Guarantees**
/// - While [`Claim::is_valid`], no other process has a valid claim to the shard, if the clocks of the machines run equally fast.
/// - Once lost, it stays lost, also if the process gets the shard again: that is another claim.
/// - [`Claim::lost`] ends as soon as it is known, and at the latest when the time is up.
///
/// **Assumes** that every write of the shard's keys carries [`Claim::fence`] ([`setpoint_client::Client::with_fence`]). It is the
/// fence that keeps a late write out; the clock only makes it rare that one is tried.
///
/// **Does not promise** anything about time that the clock does not count: the monotonic clock of Linux stands still while the
/// machine is suspended, so that a claim may seem valid after it; a write is refused all the same.
#[derive(Clone)]
pub struct Claim {
    pub shard: ShardId,
    pub fence: Fence,
    term: Arc<Term>,
}

/// A time during which a shard is this process's.
#[derive(Debug)]
pub(super) struct Term {
    until: Mutex<Instant>,
    lost: CancellationToken,
}

impl Term {
    pub fn extend(&self, until: Instant) {
        *self.until.lock() = until;
    }

    pub fn end(&self) {
        self.lost.cancel();
    }

    fn until(&self) -> Instant {
        *self.until.lock()
    }
}

impl Claim {
    pub(super) fn new(shard: ShardId, fence: Fence, until: Instant) -> Self {
        let term = Term { until: Mutex::new(until), lost: CancellationToken::new() };
        Self { shard, fence, term: Arc::new(term) }
    }

    pub(super) fn term(&self) -> &Term {
        &self.term
    }

    pub fn is_valid(&self, now: Instant) -> bool {
        !self.term.lost.is_cancelled() && now < self.term.until()
    }

    /// How long it is valid if nothing is heard from the server; nothing, if it is lost.
    pub fn remaining(&self, now: Instant) -> Duration {
        match self.term.lost.is_cancelled() {
            true => Duration::ZERO,
            false => self.term.until().saturating_duration_since(now),
        }
    }

    /// Ends once it is lost. Cancel what depends on it then.
    pub async fn lost(&self) {
        loop {
            let until = self.term.until();
            tokio::select! {
                biased;
                () = self.term.lost.cancelled() => return,
                () = sleep_until(until) => {}
            }
            // By its own clock, so that it does not depend on anybody else being awake.
            if self.term.until() <= Instant::now() {
                return;
            }
        }
    }

    /// Whether both are of the same time with the shard.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.term, &other.term)
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Claim(shard {} at epoch {})", self.shard, self.fence.epoch)
    }
}

/// A run of a key whose shard is this process's. **Guarantees**: while one is alive, the shard is not given back, until the deadline of
/// [`super::Settings::drain_ms`]. **Does not promise** that the shard stays this process's: see [`Claim::lost`]. A run ends when this is
/// dropped.
pub struct RunGuard {
    claim: Claim,
    table: Arc<Table>,
}

impl RunGuard {
    /// The table has counted it already.
    pub(super) fn counted(claim: Claim, table: Arc<Table>) -> Self {
        Self { claim, table }
    }

    pub fn claim(&self) -> &Claim {
        &self.claim
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.table.end_run(&self.claim);
    }
}

impl fmt::Debug for RunGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunGuard({:?})", self.claim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_ends_by_the_clock_and_an_extension_is_noticed() {
        let now = Instant::now();
        let claim = Claim::new(ShardId(0), Fence::default(), now + Duration::from_secs(5));
        assert!(claim.is_valid(now) && !claim.is_valid(now + Duration::from_secs(5)));
        claim.term().extend(now + Duration::from_secs(8));
        claim.lost().await;
        assert_eq!(now.elapsed().as_secs(), 8);
        assert_eq!(claim.remaining(now + Duration::from_secs(6)), Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_revoked_is_lost_at_once_and_for_good() {
        let now = Instant::now();
        let claim = Claim::new(ShardId(0), Fence::default(), now + Duration::from_secs(5));
        let waiting = tokio::spawn({
            let claim = claim.clone();
            async move { claim.lost().await }
        });
        claim.term().end();
        claim.term().extend(now + Duration::from_secs(50));
        waiting.await.expect("no panic");
        assert_eq!(now.elapsed(), Duration::ZERO);
        assert!(!claim.is_valid(now));
        assert_eq!(claim.remaining(now), Duration::ZERO);
    }
}
