//! The one stream on which a process keeps all its leases.
//!
//! Requests are sent one after the other, each answered before the next. When the stream fails, everybody who waits is told so,
//! and it is opened again after a while.

use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_client::{Client, Error, KeepAlive, Kept};
use setpoint_types::Revision;
use setpoint_types::object::Fence;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::group::Own;
use super::settings::Options;

/// Up to where the process has seen each kind.
pub(super) type Observed = Arc<dyn Fn() -> BTreeMap<String, Revision> + Send + Sync>;

/// As many kinds as the server takes in one keep-alive. Of more, the first by name are told about.
const OBSERVED_MAX: usize = 32;

pub(super) struct Keeper {
    pub client: Client,
    pub holder: String,
    pub options: Options,
    pub observed: Observed,
}

/// A lease that is to be kept.
#[derive(Debug)]
pub(super) struct Asked {
    pub own: Own,
    pub fence: Fence,
}

/// What came of it; none if no answer did.
#[derive(Debug)]
pub(super) struct Told {
    pub asked: Asked,
    pub sent: Instant,
    pub answer: Option<Kept>,
}

impl Keeper {
    /// Until nobody asks or listens any more.
    pub async fn run(self, mut asked: mpsc::Receiver<Asked>, told: mpsc::Sender<Told>) {
        let client = self.client.with_timeout(self.options.keep_patience());
        let (mut stream, mut failures) = (None, 0);
        while let Some(next) = asked.recv().await {
            let sent = Instant::now();
            match self.keep(&client, &mut stream, &next.fence).await {
                Ok(kept) => {
                    failures = 0;
                    if told.send(Told { asked: next, sent, answer: Some(kept) }).await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::debug!(lease = next.fence.lease, %error, "keep-alive failed");
                    stream = None;
                    let mut waiting = Some(next);
                    while let Some(asked_for) = waiting {
                        if told.send(Told { asked: asked_for, sent, answer: None }).await.is_err() {
                            return;
                        }
                        waiting = asked.try_recv().ok();
                    }
                    sleep(self.options.backoff().wait(failures, client.entropy().fraction())).await;
                    failures = failures.saturating_add(1);
                }
            }
        }
    }

    async fn keep(
        &self,
        client: &Client,
        stream: &mut Option<KeepAlive>,
        fence: &Fence,
    ) -> Result<Kept, Error> {
        let open = match stream.take() {
            Some(open) => open,
            None => client.leases().keep_alive().await?.with_patience(self.options.keep_patience()),
        };
        let observed = (self.observed)().into_iter().take(OBSERVED_MAX).collect();
        stream.insert(open).keep(fence, &self.holder, &observed).await
    }
}
