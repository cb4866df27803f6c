//! When each key is looked at though nothing changed. Pure.
//!
//! A round of `period` is cut into slots. A key has a slot of its own in each round, so that all keys are spread over the round,
//! each comes once in it, and nothing is kept per key. Every process begins its rounds at another time.

use std::ops::Range;
use std::time::Duration;

/// Into how many parts a round is cut: fine enough that no part is a burst, coarse enough that looking for the keys of a part
/// costs nothing.
const SLOTS: u64 = 256;

#[derive(Clone, Debug)]
pub(super) struct Schedule {
    slot: Duration,
    /// Slots that are over.
    done: u64,
    /// Moves keys to other slots than in other processes and controllers.
    salt: u64,
}

impl Schedule {
    pub fn new(period: Duration, salt: u64) -> Self {
        let slot = (period / u32::try_from(SLOTS).unwrap_or(u32::MAX)).max(Duration::from_millis(1));
        Self { slot, done: 0, salt }
    }

    /// When the next slot is over, counted from the beginning.
    pub fn next(&self) -> Duration {
        self.slot.saturating_mul(u32::try_from(self.done + 1).unwrap_or(u32::MAX))
    }

    /// The slots that are over by now and have not been taken; a whole round at most.
    pub fn take(&mut self, elapsed: Duration) -> Range<u64> {
        let over = u64::try_from(elapsed.as_nanos() / self.slot.as_nanos().max(1)).unwrap_or(u64::MAX);
        let from = self.done.max(over.saturating_sub(SLOTS));
        self.done = self.done.max(over);
        from..self.done
    }

    /// Whether the key's time is in one of these slots.
    pub fn is_due(&self, slots: &Range<u64>, hash: u64) -> bool {
        let own = (hash ^ self.salt) % SLOTS;
        // The first slot of the range that is this key's, if it is within.
        let first = slots.start + (own + SLOTS - slots.start % SLOTS) % SLOTS;
        first < slots.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Key;

    const ROUND: Duration = Duration::from_secs(256);

    #[test]
    fn every_key_comes_once_in_a_round_and_never_many_at_a_time() {
        let mut schedule = Schedule::new(ROUND, 7);
        let keys: Vec<u64> = (0..10_000).map(|it| Key::new("ns", &it.to_string()).stable_hash()).collect();
        let mut seen = vec![0; keys.len()];
        for second in 1..=256 {
            assert_eq!(schedule.next(), Duration::from_secs(second));
            let slots = schedule.take(Duration::from_secs(second));
            let due: Vec<usize> = (0..keys.len()).filter(|it| schedule.is_due(&slots, keys[*it])).collect();
            assert!(due.len() < 100, "39 are even, {} is a burst", due.len());
            due.into_iter().for_each(|it| seen[it] += 1);
        }
        assert!(seen.iter().all(|times| *times == 1));
    }

    #[test]
    fn a_clock_that_jumps_makes_every_key_due_once() {
        let mut schedule = Schedule::new(ROUND, 0);
        schedule.take(Duration::from_secs(3));
        let slots = schedule.take(ROUND * 1000);
        assert!((0..1000).all(|hash| schedule.is_due(&slots, hash)));
        assert!(schedule.take(ROUND * 1000).is_empty() && schedule.take(ROUND).is_empty());
    }
}
