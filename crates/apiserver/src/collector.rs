//! Deleting in the background what compactions have left behind, in small steps with pauses between.

use std::sync::Arc;
use std::time::Duration;

use setpoint_store::Store;
use setpoint_types::Revision;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Records walked per step: a few milliseconds of one processor.
const STEP_RECORDS: usize = 1_000;
/// Between steps, so that collecting takes a fraction of a processor and clients do not notice.
const PAUSE: Duration = Duration::from_millis(10);
/// Between looks at whether something was compacted.
const IDLE: Duration = Duration::from_millis(100);

pub struct Collector {
    store: Arc<Store>,
    collected: watch::Sender<Revision>,
}

impl Collector {
    pub fn new(store: Arc<Store>) -> Arc<Self> {
        Arc::new(Self { store, collected: watch::Sender::new(Revision::NONE) })
    }

    /// The revision below which everything superfluous is gone.
    pub fn progress(&self) -> watch::Receiver<Revision> {
        self.collected.subscribe()
    }

    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let store = self.store.clone();
            let step = tokio::task::spawn_blocking(move || store.collect(STEP_RECORDS));
            let pause = match step.await {
                Ok(Ok(progress)) => {
                    self.collected.send_if_modified(|at| {
                        std::mem::replace(at, progress.collected) != progress.collected
                    });
                    if progress.done { IDLE } else { PAUSE }
                }
                Ok(Err(error)) => {
                    tracing::error!(%error, "collecting compacted revisions failed; it is tried again");
                    IDLE * 50
                }
                Err(_stopping) => return,
            };
            if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return;
            }
        }
    }
}
