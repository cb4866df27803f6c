//! Runs that write the same again and again: somebody undoes it, or it has no effect. Pure.

use super::recent::Recent;
use crate::cache::Key;

/// Keys whose last plan is remembered. One that is forgotten is noticed a run later.
const KEYS_MAX: usize = 65_536;

/// The last plan of each key that wrote something.
#[derive(Debug)]
pub(super) struct Repeats {
    plans: Recent<Key, Executed>,
}

#[derive(Clone, Copy, Debug)]
struct Executed {
    fingerprint: u64,
    /// How often it was executed again.
    repeats: u32,
}

impl Default for Repeats {
    fn default() -> Self {
        Self { plans: Recent::new(KEYS_MAX) }
    }
}

impl Repeats {
    /// A plan was executed, with so many writes. Says how often in a row the same was executed before and wrote as well.
    pub fn executed(&mut self, key: &Key, fingerprint: Option<u64>, writes: u64) -> u32 {
        let before = self.plans.take(key);
        // Whoever writes nothing has arrived.
        let Some(fingerprint) = fingerprint.filter(|_| writes > 0) else { return 0 };
        let same = before.filter(|before| before.fingerprint == fingerprint);
        let repeats = same.map_or(0, |before| before.repeats.saturating_add(1));
        self.plans.put(key.clone(), Executed { fingerprint, repeats });
        repeats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_plan_that_writes_again_is_a_repetition() {
        let (mut repeats, key, other) = (Repeats::default(), Key::new("", "a"), Key::new("", "b"));
        assert_eq!(repeats.executed(&key, Some(1), 2), 0);
        assert_eq!(repeats.executed(&other, Some(1), 2), 0);
        assert_eq!(repeats.executed(&key, Some(1), 1), 1);
        assert_eq!(repeats.executed(&key, Some(1), 1), 2);
        assert_eq!(repeats.executed(&key, Some(2), 1), 0, "another plan");
        assert_eq!(repeats.executed(&key, Some(2), 0), 0, "nothing to do: it has arrived");
        assert_eq!(repeats.executed(&key, Some(2), 1), 0);
        assert_eq!(repeats.executed(&key, None, 1), 0);
    }
}
