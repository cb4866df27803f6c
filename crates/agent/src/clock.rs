//! The agent's two clocks, as one seam: a test brings its own.

use std::fmt;
use std::sync::Arc;

use setpoint_types::Timestamp;
use tokio::time::Instant;

use crate::lifecycle::Now;
use crate::machine::{BootTime, wall_now};

/// Tells the time. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Now + Send + Sync>);

impl Clock {
    /// The machine's.
    pub fn system() -> Self {
        Self(Arc::new(|| Now { boot: BootTime::now(), wall: wall_now() }))
    }

    /// Goes on with tokio's clock, which a test can hold and move.
    pub fn following_tokio(begin: Timestamp) -> Self {
        let start = Instant::now();
        Self(Arc::new(move || {
            let passed = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX / 4);
            Now { boot: BootTime(1_000_000 + passed), wall: Timestamp(begin.0 + passed) }
        }))
    }

    pub fn now(&self) -> Now {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
