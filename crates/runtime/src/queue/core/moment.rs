//! Points on the queue's own time line. It begins with the queue, never goes back, and has nothing to do with the time of day.

use std::time::Duration;

/// Nanoseconds since the queue's clock began. They last for 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// `elapsed` after the clock began.
    pub fn at(elapsed: Duration) -> Self {
        Self::default().after(elapsed)
    }

    /// So much later, or the end of time.
    pub fn after(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(nanos(delay)))
    }

    /// Since an earlier moment; nothing if that is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Since the clock began.
    pub fn elapsed(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

/// In nanoseconds, or the most that can be written.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
