//! Complaints about callers that are turned away, each said once in a while.
//!
//! A node of another cluster, or one that was removed, calls several times a second and does not tire of it. The log
//! should name it, not drown in it.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::warn;

/// The same is not said again for so long.
const SAID_FOR: Duration = Duration::from_secs(60);
/// What callers say is theirs to choose; beyond this many complaints, what was said is forgotten.
const SAID_MAX: usize = 64;

#[derive(Debug, Default)]
pub struct Complaints(Mutex<HashMap<String, Instant>>);

impl Complaints {
    pub fn about(&self, reason: &str) {
        if self.is_news(reason, Instant::now()) {
            warn!(reason, "a peer was turned away");
        }
    }

    fn is_news(&self, reason: &str, now: Instant) -> bool {
        let mut said = self.0.lock();
        if said.get(reason).is_some_and(|at| now.saturating_duration_since(*at) < SAID_FOR) {
            return false;
        }
        if said.len() >= SAID_MAX {
            said.clear();
        }
        said.insert(reason.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_complaint_is_made_once_in_a_while_and_memory_is_bounded() {
        let (complaints, now) = (Complaints::default(), Instant::now());
        assert!(complaints.is_news("a", now) && complaints.is_news("b", now));
        assert!(!complaints.is_news("a", now + SAID_FOR / 2));
        assert!(complaints.is_news("a", now + SAID_FOR));
        for number in 0..10 * SAID_MAX {
            complaints.is_news(&number.to_string(), now);
        }
        assert!(complaints.0.lock().len() <= SAID_MAX);
    }
}
