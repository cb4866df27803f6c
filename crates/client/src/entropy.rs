//! Where the client's randomness comes from: jitter, the choice between endpoints, operation ids.
//!
//! A seam: a simulation gives a seed and gets the same run again.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of random numbers. Cheap to clone; clones share the source.
///
/// **Assumed** of it: no two processes draw the same. Operation ids and the names under which leases are held are drawn from it, so two
/// clients with one seed are one client to the cluster.
#[derive(Clone)]
pub struct Entropy(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Entropy {
    /// The operating system's.
    pub fn system() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the source of randomness that others are handed")]
        Self(Arc::new(rand::random::<u64>))
    }

    /// The same numbers for the same seed. They can be guessed: for tests and simulations only.
    pub fn seeded(seed: u64) -> Self {
        let state = AtomicU64::new(seed);
        Self(Arc::new(move || {
            // SplitMix64 (Steele, Lea, Flood 2014).
            let step = 0x9e37_79b9_7f4a_7c15;
            let mut z = state.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }))
    }

    pub fn draw(&self) -> u64 {
        (self.0)()
    }

    /// At least 0, less than 1.
    pub fn fraction(&self) -> f64 {
        // 53 bits are what a double holds exactly.
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// An operation id that nobody else has.
    pub fn operation(&self) -> String {
        format!("{:016x}{:016x}", self.draw(), self.draw())
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entropy")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_fractions_stay_below_one() {
        let (one, same, other) = (Entropy::seeded(1), Entropy::seeded(1), Entropy::seeded(2));
        assert_eq!(one.operation(), same.operation());
        assert_ne!(one.operation(), other.operation());
        assert!((0..1000).map(|_| one.fraction()).all(|it| (0.0..1.0).contains(&it)));
        assert_eq!(Entropy::system().operation().len(), 32);
    }
}
