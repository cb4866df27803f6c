//! Where the queue gets its time and its randomness. A simulation puts its own in their place.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::time::Instant;

use super::core::Moment;

/// A time line. **Assumed** of it: it never goes back; a queue that is told an earlier time takes it for the latest it knows.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Moment;

    /// Ends at `at` or later.
    fn sleep_until(&self, at: Moment) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Tokio's clock, which tests can pause.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    start: Instant,
}

impl TokioClock {
    /// Begins now.
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Moment {
        Moment::at(self.start.elapsed())
    }

    fn sleep_until(&self, at: Moment) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        match self.start.checked_add(at.elapsed()) {
            Some(instant) => Box::pin(tokio::time::sleep_until(instant)),
            // Later than the machine can count.
            None => Box::pin(std::future::pending()),
        }
    }
}

/// Where time and randomness come from. **Guarantees**: a queue takes both from nowhere else, so that the same seams and the same calls
/// make the same run.
pub struct Seams {
    pub clock: Arc<dyn Clock>,
    /// Uniform over all numbers. Spreads retries, and nothing that needs to be secret.
    pub random: Box<dyn FnMut() -> u64 + Send>,
}

impl Seams {
    /// Tokio's clock, and numbers that follow from a seed. Replicas of a controller need different ones, or they retry in
    /// step.
    pub fn tokio(seed: u64) -> Self {
        Self { clock: Arc::new(TokioClock::start()), random: Box::new(numbers(seed)) }
    }
}

impl fmt::Debug for Seams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seams")
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): short, and any seed is as good as another.
fn numbers(mut state: u64) -> impl FnMut() -> u64 + Send {
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_numbers() {
        let mut draw = numbers(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| draw()).collect();
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
