//! What the leader knows of the leases of all nodes, asked for once and used by many runs.
//!
//! Keep-alives are not written, so that only the leader can tell who is late. Its answer is shared for a little while, with its age:
//! ten thousand nodes are one request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use setpoint_client::Client;
use setpoint_types::Epoch;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::SYSTEM;
use super::evidence::Pulse;

/// The leader's answer.
struct Answer {
    at: Instant,
    leases: BTreeMap<String, (Epoch, Duration)>,
}

/// The leader's answers.
pub struct Pulses {
    client: Client,
    /// An answer is used for so long.
    age_max: Duration,
    last: Mutex<Option<Arc<Answer>>>,
}

impl Pulses {
    pub fn new(client: Client, age_max: Duration) -> Self {
        Self { client, age_max, last: Mutex::default() }
    }

    /// What the leader says of a lease; none if it does not know it, or cannot be asked.
    pub async fn of(&self, lease: &str) -> Option<Pulse> {
        let answer = self.answer().await?;
        let (epoch, remaining) = *answer.leases.get(lease)?;
        Some(Pulse { epoch, remaining, age: answer.at.elapsed() })
    }

    async fn answer(&self) -> Option<Arc<Answer>> {
        // Held while the leader is asked, so that it is asked once.
        let mut last = self.last.lock().await;
        if let Some(answer) = last.as_ref().filter(|answer| answer.at.elapsed() < self.age_max) {
            return Some(answer.clone());
        }
        let at = Instant::now();
        match self.client.leases().holders(SYSTEM).await {
            Ok(holders) => {
                let lease = |it: setpoint_client::Holder| (it.fence.lease, (it.fence.epoch, it.remaining));
                let answer = Arc::new(Answer { at, leases: holders.into_iter().map(lease).collect() });
                *last = Some(answer.clone());
                Some(answer)
            }
            Err(error) => {
                tracing::debug!(%error, "the leader cannot be asked about leases");
                None
            }
        }
    }
}
