//! How long to wait before trying again.

use std::time::Duration;

/// Waits that grow, each drawn at random below its bound, so that those who failed together do not return together.
///
/// **Guarantees**: no wait is longer than `max`; the bound of the n-th wait is `first · 2ⁿ`. **Does not promise** a least wait:
/// half of the bound is certain, the other half is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub first: Duration,
    pub max: Duration,
}

impl Default for Backoff {
    /// From a round trip to what a person still waits for.
    fn default() -> Self {
        Self { first: Duration::from_millis(50), max: Duration::from_secs(5) }
    }
}

impl Backoff {
    /// The wait after so many failures in a row, counted from 0. `fraction` is random, from 0 to 1.
    pub fn wait(&self, failures: u32, fraction: f64) -> Duration {
        let doubled = self.first.saturating_mul(1 << failures.min(20));
        let bound = doubled.min(self.max);
        bound.mul_f64(0.5 + 0.5 * fraction.clamp(0.0, 1.0)).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn waits_grow_up_to_the_bound_and_are_spread(failures in 0u32..100, fraction in 0.0f64..1.0) {
            let backoff = Backoff::default();
            let wait = backoff.wait(failures, fraction);
            prop_assert!(wait <= backoff.max);
            prop_assert!(wait >= backoff.wait(failures, 0.0));
            prop_assert!(backoff.wait(failures + 1, fraction) >= wait);
            prop_assert!(backoff.wait(failures, 0.0) * 2 >= backoff.wait(failures, 1.0) - Duration::from_nanos(2));
        }
    }

    #[test]
    fn nonsense_is_no_panic() {
        let backoff = Backoff { first: Duration::MAX, max: Duration::from_secs(1) };
        assert!(backoff.wait(u32::MAX, 7.0) <= Duration::from_secs(1));
    }
}
