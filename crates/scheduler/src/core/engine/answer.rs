//! What the server said to a bind.

use std::sync::Arc;

use setpoint_types::Revision;
use setpoint_types::kinds::{Outcome, PendingReason};

use super::{Engine, Phase};
use crate::core::blocker::Blocker;
use crate::core::explain::Refusal;
use crate::core::hash::of_text;
use crate::core::queue::{Backoff, Pause};

/// What came of a bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has its node, at this revision.
    Bound(Revision),
    /// It has not: why, and what has to be seen before it is tried again.
    Refused { reason: PendingReason, message: String, catch_up_to: Revision },
    /// It was not tried.
    Dropped,
}

impl Engine {
    pub fn answer(&mut self, key: &str, answer: Answer, now: u64) {
        match answer {
            Answer::Bound(revision) => self.bound(key, revision),
            Answer::Refused { reason, message, catch_up_to } => {
                let refusal = Refusal::plain(reason, Outcome::Rejected, message, Blocker::Nodes);
                self.pause(key, refusal, catch_up_to, now);
            }
            Answer::Dropped => {
                self.cluster.forget(key);
                if let Some((key, _)) = self.away(key) {
                    self.join(&key, now);
                }
            }
        }
        self.wake();
    }

    fn bound(&mut self, key: &str, revision: Revision) {
        self.cluster.commit(key, revision);
        if revision <= self.seen {
            // The cache is as far already: what it does not show is gone again.
            self.set_seen_of(key, revision);
        } else {
            self.committed.insert((revision, key.into()));
        }
        self.drop_replica(key);
    }

    fn set_seen_of(&mut self, key: &str, revision: Revision) {
        self.committed.insert((revision, key.into()));
        self.set_seen(self.seen);
    }

    fn away(&self, key: &str) -> Option<(Arc<str>, u32)> {
        let (key, pending) = self.pending.get_key_value(key)?;
        matches!(pending.phase, Phase::Away).then(|| (key.clone(), pending.refusals))
    }

    fn pause(&mut self, key: &str, refusal: Refusal, catch_up_to: Revision, now: u64) {
        self.cluster.forget(key);
        let Some((key, refusals)) = self.away(key) else { return };
        let Some(pending) = self.pending.get_mut(&key) else { return };
        pending.refusals = refusals.saturating_add(1);
        pending.phase = Phase::Pausing(Arc::new(refusal));
        let wait = Backoff::wait_ms(pending.refusals, of_text(&key) ^ self.seed);
        self.backoff.insert(key.clone(), Pause { until: now.saturating_add(wait), revision: catch_up_to });
        self.dirty.insert(key);
    }
}
