//! The space quota: a write that would not fit raises the alarm that stops writes on every node.

use std::sync::atomic::{AtomicU64, Ordering};

use setpoint_store::command::{Alarm, AlarmAction, AlarmKind, Command};

use crate::etcd::error::EtcdError;
use crate::replica::Replica;

/// Knows the size as housekeeping last saw it; asking the engine for each write would cost more than the write.
pub struct Quota {
    /// Zero means no quota.
    bytes_max: u64,
    size: AtomicU64,
}

impl Quota {
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, size: AtomicU64::new(0) }
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
        if !replica.store.alarms().contains(&alarm) {
            tracing::warn!(quota = self.bytes_max, "the database reached its quota; raising the alarm");
            let raised = replica.propose(Command::Alarm { action: AlarmAction::Activate, alarm }).await;
            if let Err(error) = raised {
                tracing::warn!(%error, "the alarm was not raised; the write is refused all the same");
            }
        }
        Err(EtcdError::NoSpace)
    }
}
