//! The space quota: a write that would not fit raises the alarm that stops writes on every node.

use std::sync::atomic::{AtomicU64, Ordering};

use setpoint_store::command::{Alarm, AlarmAction, AlarmKind, Command};
use tokio::sync::Mutex;

use crate::etcd::error::EtcdError;
use crate::replica::Replica;

/// Knows the size as housekeeping last saw it; asking the engine for each write would cost more than the write.
pub struct Quota {
    /// Zero means no quota.
    bytes_max: u64,
    size: AtomicU64,
    /// Held by the write that raises the alarm.
    raising: Mutex<()>,
}

impl Quota {
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, size: AtomicU64::new(0), raising: Mutex::new(()) }
    }

    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Takes note of the database's size.
    pub fn observe(&self, bytes: u64) {
        self.size.store(bytes, Ordering::Relaxed);
    }

    fn fits(&self, bytes: usize) -> bool {
        self.bytes_max == 0 || self.size.load(Ordering::Relaxed) + (bytes as u64) < self.bytes_max
    }

    /// Lets a write of this size through, or raises the alarm and refuses it.
    pub async fn admit(&self, replica: &Replica, bytes: usize) -> Result<(), EtcdError> {
        if self.fits(bytes) {
            return Ok(());
        }
        // Space may have been made since: an alarm that was just disarmed must not be raised from an old size.
        self.observe(replica.store.size().total);
        if self.fits(bytes) {
            return Ok(());
        }
        let alarm = Alarm { member: replica.identity.member, kind: AlarmKind::NoSpace };
        let is_raised = || replica.store.alarms().contains(&alarm);
        let raise = async || {
            tracing::warn!(quota = self.bytes_max, "the database reached its quota; raising the alarm");
            let raised = replica.propose(Command::Alarm { action: AlarmAction::Activate, alarm }).await;
            if let Err(error) = raised {
                tracing::warn!(%error, "the alarm was not raised; the write is refused all the same");
            }
        };
        self.raise_once(is_raised, raise).await;
        Err(EtcdError::NoSpace)
    }

    /// Of many writes that do not fit, one raises the alarm and says so; the others need not wait for it.
    async fn raise_once(&self, is_raised: impl Fn() -> bool, raise: impl AsyncFnOnce()) {
        let Ok(_only) = self.raising.try_lock() else { return };
        if !is_raised() {
            raise().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn of_many_writes_that_do_not_fit_one_raises_the_alarm() {
        let quota = Quota::new(1);
        let (raised, times) = (Cell::new(false), Cell::new(0));
        let write = || {
            quota.raise_once(
                || raised.get(),
                async || {
                    times.set(times.get() + 1);
                    tokio::task::yield_now().await;
                    raised.set(true);
                },
            )
        };
        tokio::join!(write(), write(), write());
        write().await;
        assert_eq!(times.get(), 1);
        raised.set(false);
        write().await;
        assert_eq!(times.get(), 2, "disarmed, it can be raised again");
    }
}
