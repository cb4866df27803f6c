//! The clock of a world: tokio's, with a date.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use setpoint_consensus::Clock;
use setpoint_types::Timestamp;
use tokio::time::Instant;

/// 2025-01-01, so that times in failures look like times.
const EPOCH_MS: u64 = 1_735_689_600_000;

/// Wall time that follows tokio's clock, and can jump.
pub struct WallClock {
    started: Instant,
    jumped_ms: AtomicI64,
}

thread_local! {
    static NEWEST: RefCell<Option<Arc<WallClock>>> = const { RefCell::new(None) };
}

/// The date of the world that was made last on this thread: for controllers under test, which have to tell the time and know of no
/// world. Panics if there was none.
pub fn now() -> Timestamp {
    NEWEST.with_borrow(|clock| clock.as_ref().expect("a world was made on this thread").now())
}

impl WallClock {
    /// Begins now, at a date that is always the same.
    pub fn start() -> Arc<Self> {
        let clock = Arc::new(Self { started: Instant::now(), jumped_ms: AtomicI64::new(0) });
        NEWEST.set(Some(clock.clone()));
        clock
    }

    /// Since the world began, as timers count it.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The date jumps forward. Timers do not notice.
    pub fn jump(&self, by: Duration) {
        self.jumped_ms.fetch_add(signed_millis(by), Ordering::Relaxed);
    }

    /// The date jumps back. Timers do not notice.
    pub fn jump_back(&self, by: Duration) {
        self.jumped_ms.fetch_sub(signed_millis(by), Ordering::Relaxed);
    }
}

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        let date = EPOCH_MS.saturating_add_signed(self.jumped_ms.load(Ordering::Relaxed));
        Timestamp(date.saturating_add(millis(self.elapsed())))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX / 4)
}

/// Bounded, so that jumps to and fro add up to none.
fn signed_millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX).min(i64::MAX / 4)
}
