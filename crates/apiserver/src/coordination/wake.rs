//! Being woken when one of a lease's keys changes.

use std::sync::Arc;

use setpoint_store::LeaseName;
use setpoint_types::KeyRange;
use tokio::sync::Notify;

use super::state::object_key;
use crate::watch::{Hub, Slot};

pub struct Wake {
    hub: Arc<Hub>,
    slot: Slot,
    woken: Arc<Notify>,
    ranges: [KeyRange; 2],
}

impl Wake {
    /// For all that changes from now on.
    pub fn new(hub: Arc<Hub>, lease: &LeaseName) -> Self {
        let woken = Arc::new(Notify::new());
        let slot = hub.open_follower(woken.clone());
        let ranges = [lease.hold_key(), object_key(lease)].map(KeyRange::Single);
        for range in &ranges {
            hub.watch(slot, range);
        }
        Self { hub, slot, woken, ranges }
    }

    /// Returns once something has changed since the last return.
    pub async fn changed(&self) {
        self.woken.notified().await;
        // Only that there is something: the state is read anew. Taken first, so that what comes meanwhile wakes again.
        self.hub.take(self.slot);
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        for range in &self.ranges {
            self.hub.unwatch(self.slot, range);
        }
        self.hub.close_stream(self.slot);
    }
}
