//! Attached to one node of the cluster, again and again.

use std::sync::Arc;
use std::time::Duration;

use setpoint_client::{Attached, Backoff, Client, Entropy, Error, HostLine};
use setpoint_types::Epoch;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::host::SessionHost;
use crate::metrics::AgentMetrics;
use crate::node::hold::Held;
use crate::supervisor::chain;

/// Between attempts that failed.
const AGAIN: Backoff = Backoff { first: Duration::from_millis(200), max: Duration::from_secs(15) };

/// An attachment that lasted so long was a good one: the next attempt is a first one again.
const LASTED: Duration = Duration::from_secs(30);

/// The agent's lines to all nodes of the cluster that it knows.
pub struct Lines {
    pub client: Client,
    pub node: String,
    pub lease: watch::Receiver<Option<Held>>,
    pub host: Arc<SessionHost>,
    pub metrics: Arc<AgentMetrics>,
}

impl Lines {
    /// Until it is dropped, and all sessions with it.
    pub async fn run(self) {
        let mut lines = JoinSet::new();
        for line in self.client.sessions().lines() {
            lines.spawn(keep(Line {
                line,
                node: self.node.clone(),
                lease: self.lease.clone(),
                host: self.host.clone(),
                metrics: self.metrics.clone(),
                entropy: self.client.entropy().clone(),
            }));
        }
        while lines.join_next().await.is_some() {}
    }
}

struct Line {
    line: HostLine,
    node: String,
    lease: watch::Receiver<Option<Held>>,
    host: Arc<SessionHost>,
    metrics: Arc<AgentMetrics>,
    entropy: Entropy,
}

async fn keep(mut line: Line) {
    let mut failures = 0;
    // What is under way goes on while the line is made again.
    let mut sessions = JoinSet::new();
    loop {
        let Some(epoch) = line.held().await else { return };
        let began = Instant::now();
        let ended = match line.line.attach(&line.node, epoch).await {
            Ok(attached) => {
                line.metrics.attached.inc();
                let ended = line.serve(attached, epoch, &mut sessions).await;
                line.metrics.attached.dec();
                ended
            }
            Err(error) => Some(error),
        };
        failures = if began.elapsed() >= LASTED { 0 } else { failures };
        if let Some(error) = ended {
            // Once for as long as it lasts.
            match failures {
                0 => tracing::warn!(
                    error = chain(&error),
                    "not attached to a node of the cluster: logs and commands cannot be asked for there; trying again"
                ),
                _ => tracing::debug!(error = chain(&error), failures, "not attached"),
            }
        }
        sleep(AGAIN.wait(failures, line.entropy.fraction())).await;
        failures += 1;
    }
}

impl Line {
    /// The epoch at which the node's lease is held, once it is.
    async fn held(&mut self) -> Option<Epoch> {
        let held = self.lease.wait_for(Option::is_some).await.ok()?;
        held.as_ref().map(|held| held.fence.epoch)
    }

    /// Until the line breaks, or the lease is held at another epoch.
    async fn serve(
        &mut self,
        mut attached: Attached,
        epoch: Epoch,
        sessions: &mut JoinSet<()>,
    ) -> Option<Error> {
        loop {
            tokio::select! {
                word = attached.next() => match word {
                    Ok(word) => {
                        self.metrics.sessions.inc();
                        sessions.spawn(self.host.clone().session(self.line.clone(), word));
                    }
                    Err(error) => return Some(error),
                },
                Some(_) = sessions.join_next() => {}
                moved = self.lease.wait_for(|now| now.as_ref().is_some_and(|now| now.fence.epoch != epoch)) => {
                    moved.ok()?;
                    return None;
                }
            }
        }
    }
}
