//! Those whom the server refused wait a while: longer each time, and not before the caches have seen what the refusal was about.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use setpoint_types::Revision;

use crate::core::hash::mix;

/// The first wait.
const FIRST_MS: u64 = 20;
/// At most.
const MOST_MS: u64 = 10_000;

/// Until when somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    pub until: u64,
    /// And until the caches have come to here.
    pub revision: Revision,
}

/// Those who wait by themselves.
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    due: BTreeSet<(u64, Arc<str>)>,
    pauses: BTreeMap<Arc<str>, Pause>,
}

impl Backoff {
    /// The wait after so many refusals in a row, with some chance in it so that two schedulers do not meet again.
    pub fn wait_ms(refusals: u32, seed: u64) -> u64 {
        let whole = FIRST_MS.saturating_mul(1 << refusals.saturating_sub(1).min(16)).min(MOST_MS);
        whole / 2 + mix(seed) % (whole / 2 + 1)
    }

    pub fn insert(&mut self, replica: Arc<str>, pause: Pause) {
        self.remove(&replica);
        self.due.insert((pause.until, replica.clone()));
        self.pauses.insert(replica, pause);
    }

    pub fn remove(&mut self, replica: &str) -> bool {
        let Some((replica, pause)) = self.pauses.remove_entry(replica) else { return false };
        self.due.remove(&(pause.until, replica))
    }

    /// Those whose time is up, and who have not to wait for the caches.
    pub fn take_due(&mut self, now: u64, seen: Revision) -> Vec<Arc<str>> {
        let due = self.due.iter().take_while(|it| it.0 <= now);
        let ready = due.filter(|it| self.pauses.get(&it.1).is_none_or(|pause| pause.revision <= seen));
        let ready: Vec<Arc<str>> = ready.map(|it| it.1.clone()).collect();
        for replica in &ready {
            self.remove(replica);
        }
        ready
    }

    /// When the next time is up after now. Whoever waits for the caches is looked at when these move.
    pub fn next_due(&self, now: u64) -> Option<u64> {
        self.due.iter().map(|it| it.0).find(|until| *until > now)
    }

    pub fn len(&self) -> usize {
        self.pauses.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pauses.is_empty()
    }
}
