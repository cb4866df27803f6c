//! Bounded concurrent work on a few keys, recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use setpoint_api::etcdserverpb::request_op::Request as RequestKind;
use setpoint_api::etcdserverpb::response_op::Response as ResponseKind;
use tokio::task::JoinSet;
use tonic::{Code, Status};

use crate::client::{Client, revision};
use crate::dump::version;
use crate::history::{Action, Keys, Op, Outcome, Recorder, Version};

#[derive(Clone, Debug)]
pub struct LoadConfig {
    pub clients: usize,
    pub keys: usize,
    /// Between two requests of a client.
    pub pause: Duration,
    /// Requests of one client, at most.
    pub requests: usize,
}

impl Default for LoadConfig {
    fn default() -> Self {
        Self { clients: 6, keys: 8, pause: Duration::from_millis(10), requests: 4000 }
    }
}

/// How long a client waits for an answer; then it does not know.
const TIMEOUT: Duration = Duration::from_secs(4);
/// A client whose request failed waits this long, so that a dead node is not asked a thousand times.
const AFTER_FAILURE: Duration = Duration::from_millis(60);

/// Clients at work. The first of them stay with one node each, the others go to any.
pub struct Load {
    stop: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

impl Load {
    pub fn start(addresses: &[String], recorder: &Recorder, seed: u64, config: &LoadConfig) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for client in 0..config.clients {
            let worker = Worker {
                client,
                nodes: addresses.iter().map(|address| Client::with_timeout(address, TIMEOUT)).collect(),
                recorder: recorder.clone(),
                random: StdRng::seed_from_u64(seed.wrapping_mul(1009).wrapping_add(client as u64)),
                config: config.clone(),
                sequence: 0,
                last: None,
                stamp: format!("{seed:x}"),
            };
            tasks.spawn(worker.run(stop.clone()));
        }
        Self { stop, tasks }
    }

    /// Lets every client finish its request.
    pub async fn stop(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("a client of the load does not panic");
        }
    }
}

struct Worker {
    client: usize,
    nodes: Vec<Client>,
    recorder: Recorder,
    random: StdRng,
    config: LoadConfig,
    sequence: u64,
    /// What this client last saw of some key, to swap it.
    last: Option<Version>,
    stamp: String,
}

impl Worker {
    async fn run(mut self, stop: Arc<AtomicBool>) {
        for _ in 0..self.config.requests {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let node = if self.client < self.nodes.len() {
                self.client
            } else {
                self.random.random_range(0..self.nodes.len())
            };
            let action = self.next_action();
            let call = self.recorder.now();
            let outcome = perform(&self.nodes[node], &action).await;
            let ret = self.recorder.now();
            if let Outcome::Seen { found, .. } = &outcome {
                self.last = found.first().cloned();
            }
            let failed = matches!(outcome, Outcome::Unknown(_) | Outcome::NotApplied(_));
            self.recorder.op(Op { client: self.client, node, call, ret, action, outcome });
            tokio::time::sleep(if failed { AFTER_FAILURE } else { self.config.pause }).await;
        }
    }

    fn next_action(&mut self) -> Action {
        self.sequence += 1;
        let value = format!("{}-{}-{}", self.stamp, self.client, self.sequence);
        let key = format!("k/{}", self.random.random_range(0..self.config.keys));
        match self.random.random_range(0..10) {
            0..4 => Action::Put { key, value },
            4..6 => match &self.last {
                Some(last) => Action::Swap { key: last.key.clone(), expected: last.modified, value },
                None => Action::Swap { key, expected: 0, value },
            },
            6 => Action::Delete { key, mark: format!("mark/{}", self.client), value },
            7..9 => Action::Read { keys: Keys::One(key), stale: false },
            _ => Action::Read {
                keys: Keys::Prefix("k/".to_owned()),
                stale: self.random.random_range(0..3) == 0,
            },
        }
    }
}

/// Does one thing and says how it went.
pub async fn perform(client: &Client, action: &Action) -> Outcome {
    let outcome = match action {
        Action::Put { key, value } => {
            client.put(key, value).await.map(|revision| Outcome::Written { revision, deleted: 0 })
        }
        Action::Swap { key, expected, value } => swap(client, key, *expected, value).await,
        Action::Delete { key, mark, value } => delete(client, key, mark, value).await,
        Action::Read { keys, stale } => read(client, keys, *stale).await,
    };
    outcome.unwrap_or_else(|status| failure(&status))
}

/// Only what the node refused before it proposed anything is known not to have happened.
fn failure(status: &Status) -> Outcome {
    let text = format!("{:?}: {}", status.code(), status.message());
    let refused = matches!(status.message(), "etcdserver: no leader" | "etcdserver: too many requests");
    if refused || matches!(status.code(), Code::InvalidArgument | Code::NotFound | Code::OutOfRange) {
        Outcome::NotApplied(text)
    } else {
        Outcome::Unknown(text)
    }
}

fn range_request(keys: &Keys, serializable: bool) -> pb::RangeRequest {
    match keys {
        Keys::One(key) => pb::RangeRequest { key: key.clone().into(), serializable, ..Default::default() },
        Keys::Prefix(prefix) => {
            let range_end = prefix_end(prefix);
            pb::RangeRequest {
                key: prefix.clone().into(),
                range_end: range_end.into(),
                serializable,
                ..Default::default()
            }
        }
    }
}

/// The first key after all that start so. Our prefixes end in ordinary characters.
pub fn prefix_end(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

async fn read(client: &Client, keys: &Keys, stale: bool) -> Result<Outcome, Status> {
    let answer = client.range(range_request(keys, stale)).await?;
    let found = answer.kvs.into_iter().map(version).collect();
    Ok(Outcome::Seen { revision: revision(answer.header), found })
}

fn op(request: RequestKind) -> pb::RequestOp {
    pb::RequestOp { request: Some(request) }
}

fn put_op(key: &str, value: &str) -> pb::RequestOp {
    let put =
        pb::PutRequest { key: key.to_owned().into(), value: value.to_owned().into(), ..Default::default() };
    op(RequestKind::RequestPut(put))
}

async fn swap(client: &Client, key: &str, expected: i64, value: &str) -> Result<Outcome, Status> {
    let compare = pb::Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Mod.into(),
        key: key.to_owned().into(),
        target_union: Some(TargetUnion::ModRevision(expected)),
        ..Default::default()
    };
    let request = pb::TxnRequest {
        compare: vec![compare],
        success: vec![put_op(key, value)],
        failure: vec![op(RequestKind::RequestRange(range_request(&Keys::One(key.to_owned()), false)))],
    };
    let answer = client.kv().txn(request).await?.into_inner();
    let revision = revision(answer.header);
    if answer.succeeded {
        return Ok(Outcome::Written { revision, deleted: 0 });
    }
    let found = match answer.responses.into_iter().next().and_then(|op| op.response) {
        Some(ResponseKind::ResponseRange(range)) => range.kvs.into_iter().map(version).collect(),
        _ => Vec::new(),
    };
    Ok(Outcome::Seen { revision, found })
}

async fn delete(client: &Client, key: &str, mark: &str, value: &str) -> Result<Outcome, Status> {
    let delete = pb::DeleteRangeRequest { key: key.to_owned().into(), ..Default::default() };
    let success = vec![op(RequestKind::RequestDeleteRange(delete)), put_op(mark, value)];
    let answer = client.kv().txn(pb::TxnRequest { success, ..Default::default() }).await?.into_inner();
    let deleted = match answer.responses.first().and_then(|op| op.response.as_ref()) {
        Some(ResponseKind::ResponseDeleteRange(delete)) => delete.deleted,
        _ => -1,
    };
    Ok(Outcome::Written { revision: revision(answer.header), deleted })
}
