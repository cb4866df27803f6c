//! The time of day, for what controllers write down and compare with written times. Waits are tokio's.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use setpoint_types::Timestamp;
use tokio::time::Instant;

/// Tells the time of day. Cheap to clone. A seam: a test brings its own.
///
/// **Does not promise** that time never goes back, nor that two machines agree: nothing that must not happen twice may depend
/// on it.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl WallClock {
    /// The machine's.
    pub fn system() -> Self {
        Self::new(|| {
            #[expect(clippy::disallowed_methods, reason = "the source of time that others are handed")]
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
        })
    }

    /// Begins now with this time and goes on with tokio's clock, which a test can hold and move.
    pub fn following_tokio(begin: Timestamp) -> Self {
        let start = Instant::now();
        Self::new(move || {
            let millis = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
            Timestamp(begin.0.saturating_add(millis))
        })
    }

    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WallClock")
    }
}
