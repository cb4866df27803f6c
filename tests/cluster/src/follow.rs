//! A watcher that goes on wherever it can: when its node fails it resumes at another one, at the next revision.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::client::Client;
use crate::dump::{change, watch_all};
use crate::history::Recorder;
use crate::model::Change;

/// Between two attempts to open a watch.
const RETRY: Duration = Duration::from_millis(100);
/// A watch that is silent for so long is opened anew, elsewhere.
const SILENCE: Duration = Duration::from_secs(3);

pub struct Follower {
    until: watch::Sender<i64>,
    task: JoinHandle<Vec<Vec<Change>>>,
}

impl Follower {
    /// Follows everything from revision 1 on, first at the node given.
    pub fn start(addresses: &[String], first: usize, recorder: &Recorder, seed: u64) -> Self {
        let clients = addresses.iter().map(|address| Client::new(address)).collect();
        let (until, end) = watch::channel(i64::MAX);
        let random = StdRng::seed_from_u64(seed ^ 0x5eed ^ first as u64);
        let task = tokio::spawn(follow(clients, first, recorder.clone(), random, end));
        Self { until, task }
    }

    /// Everything received up to this revision, response by response.
    pub async fn finish(self, last: i64) -> Vec<Vec<Change>> {
        self.until.send_replace(last);
        self.task.await.expect("a follower does not panic")
    }
}

async fn follow(
    clients: Vec<Client>,
    mut node: usize,
    recorder: Recorder,
    mut random: StdRng,
    mut until: watch::Receiver<i64>,
) -> Vec<Vec<Change>> {
    let mut batches: Vec<Vec<Change>> = Vec::new();
    let newest = |batches: &[Vec<Change>]| {
        batches.last().and_then(|batch| batch.last()).map_or(0, |last| last.revision)
    };
    loop {
        let Ok(mut changes) = watch_all(&clients[node], newest(&batches) + 1).await else {
            if newest(&batches) >= *until.borrow() {
                return batches;
            }
            tokio::time::sleep(RETRY).await;
            node = random.random_range(0..clients.len());
            continue;
        };
        loop {
            if newest(&batches) >= *until.borrow() {
                return batches;
            }
            let response = tokio::select! {
                response = changes.responses.message() => response,
                () = tokio::time::sleep(SILENCE) => break,
                _ = until.changed() => continue,
            };
            let Ok(Some(response)) = response else { break };
            if let Some(last) = response.events.last().and_then(|event| event.kv.as_ref()) {
                recorder.sighting(last.mod_revision);
                batches.push(response.events.into_iter().map(change).collect());
            }
        }
        node = random.random_range(0..clients.len());
    }
}
