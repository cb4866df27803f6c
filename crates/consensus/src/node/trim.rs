//! Keeps the log short: lets the state be flushed when the log has grown by many bytes, and cuts what lies before.
//!
//! openraft flushes and cuts by the number of entries; this task does by bytes. A log that is cut in time stays in the
//! segments it has, which are written again, and a restart replays little.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::status;
use crate::config::LogRetention;
use crate::log::Growth;
use crate::raft::Raft;
use crate::snapshot::Depot;
use crate::state::Progress;

const LOOK_EVERY: Duration = Duration::from_millis(250);

pub struct Trim {
    pub raft: Raft,
    pub progress: Arc<Progress>,
    pub growth: Arc<Growth>,
    pub depot: Arc<Depot>,
    pub retention: LogRetention,
}

impl Trim {
    pub async fn run(self, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.trim() => {}
        }
    }

    /// Returns when openraft has stopped.
    async fn trim(&self) {
        loop {
            sleep(LOOK_EVERY).await;
            let status = status::read(&self.raft, &self.progress);
            if self.growth.bytes_after(status.snapshot) >= self.retention.flush_bytes
                && self.raft.trigger().snapshot().await.is_err()
            {
                return;
            }
            // Whoever is sent a snapshot needs what comes after it.
            let keep =
                if self.depot.is_lent() { self.retention.lent_bytes } else { self.retention.keep_bytes };
            let cut = self.growth.index_before(keep).min(status.snapshot);
            if cut > status.purged
                && let Some(cut) = cut
                && self.raft.trigger().purge_log(cut).await.is_err()
            {
                return;
            }
        }
    }
}
