//! One watch stream of one server: requests go out, a task collects every response in order of arrival.
//!
//! The collector never judges; it answers only "has this arrived yet?" ([`WatchStream::wait_until`]) and hands out
//! what is new ([`WatchStream::report_first`], [`WatchStream::take_all`]). Which responses to wait for is the caller's
//! business (`side`), and what they must look like is that of `rules`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::watch_client::WatchClient;
use setpoint_api::etcdserverpb::watch_request::RequestUnion;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;

use crate::answer::{Arrived, Outcome, Received, Refusal};

/// The watch id of answers that belong to no watch: refusals and manual progress.
pub const NO_WATCH: i64 = -1;

/// Requests that may wait to be sent. A sequence sends each after the last was answered, so few ever do.
const REQUESTS_QUEUED_MAX: usize = 64;

/// What has arrived on the stream.
#[derive(Debug, Default)]
pub struct Log {
    /// Responses not handed out yet.
    pending: Vec<Arrived>,
    /// Events so far, by watch id.
    pub events: HashMap<i64, usize>,
    /// Cancellations so far, by watch id.
    pub cancels: HashMap<i64, usize>,
    /// The highest revision of an answer to a progress request.
    pub progress: i64,
    /// How many of those there were.
    pub progress_count: usize,
    pub ended: Option<Outcome<()>>,
    /// Watch ids whose creation was confirmed.
    created: HashSet<i64>,
    /// Watch ids that delivered something before their creation was confirmed.
    early: Vec<i64>,
}

impl Log {
    fn add(&mut self, response: pb::WatchResponse) {
        let id = response.watch_id;
        if response.created {
            self.created.insert(id);
        } else if id != NO_WATCH && !self.created.contains(&id) {
            self.early.push(id);
        }
        if response.canceled {
            *self.cancels.entry(id).or_default() += 1;
        }
        if is_progress(&response) && id == NO_WATCH {
            let revision = response.header.as_ref().map_or(0, |header| header.revision);
            self.progress = self.progress.max(revision);
            self.progress_count += 1;
        }
        *self.events.entry(id).or_default() += response.events.len();
        self.pending.push(Arrived { response, reported: false });
    }

    /// The responses not handed out yet, without those that answered a step.
    pub fn unreported(&self) -> impl DoubleEndedIterator<Item = &pb::WatchResponse> {
        self.pending.iter().filter(|arrived| !arrived.reported).map(|arrived| &arrived.response)
    }
}

/// A response that only says how far the stream or a watch is.
pub fn is_progress(response: &pb::WatchResponse) -> bool {
    !response.created && !response.canceled && response.events.is_empty()
}

pub struct WatchStream {
    requests: mpsc::Sender<pb::WatchRequest>,
    log: Arc<Mutex<Log>>,
    arrived: Arc<Notify>,
    collector: JoinHandle<()>,
}

impl WatchStream {
    /// Opens the stream. The server sees it only with the first request.
    pub fn open(mut client: WatchClient<Channel>, metadata: MetadataMap) -> Self {
        let (requests, outgoing) = mpsc::channel(REQUESTS_QUEUED_MAX);
        let log = Arc::new(Mutex::new(Log::default()));
        let arrived = Arc::new(Notify::new());
        let collector = tokio::spawn({
            let (log, arrived) = (Arc::clone(&log), Arc::clone(&arrived));
            async move {
                let mut request = tonic::Request::new(ReceiverStream::new(outgoing));
                *request.metadata_mut() = metadata;
                let outcome = match client.watch(request).await {
                    Ok(responses) => collect(responses.into_inner(), &log, &arrived).await,
                    Err(status) => Err(Refusal::from(status)),
                };
                log.lock().ended = Some(outcome);
                arrived.notify_waiters();
            }
        });
        Self { requests, log, arrived, collector }
    }

    /// Sends a request; `None` sends an empty one. A stream that has ended swallows it, which the log tells.
    pub async fn send(&self, request: Option<RequestUnion>) {
        let _ = self.requests.send(pb::WatchRequest { request_union: request }).await;
    }

    /// Waits until the log satisfies the condition, or the stream ends. `false` if it never did.
    pub async fn wait_until(&self, deadline: Instant, condition: impl Fn(&Log) -> bool) -> bool {
        loop {
            let mut notified = std::pin::pin!(self.arrived.notified());
            // Registered before the log is read, so that nothing that arrives in between is missed.
            notified.as_mut().enable();
            {
                let log = self.log.lock();
                if condition(&log) {
                    return true;
                }
                if log.ended.is_some() {
                    return false;
                }
            }
            if timeout_at(deadline, notified).await.is_err() {
                return condition(&self.log.lock());
            }
        }
    }

    /// The first unreported response that satisfies the condition. It stays in the log, because its place among the
    /// others matters, but it is marked.
    pub fn report_first(&self, condition: impl Fn(&pb::WatchResponse) -> bool) -> Option<pb::WatchResponse> {
        let mut log = self.log.lock();
        let found =
            log.pending.iter_mut().find(|arrived| !arrived.reported && condition(&arrived.response))?;
        found.reported = true;
        Some(found.response.clone())
    }

    /// Takes all responses not handed out yet.
    pub fn take_all(&self) -> Received {
        let mut log = self.log.lock();
        let early = std::mem::take(&mut log.early);
        let complaints =
            early.iter().map(|id| format!("watch {id} delivered before it was created")).collect();
        Received { responses: std::mem::take(&mut log.pending), ended: log.ended.clone(), complaints }
    }

    pub fn with_log<T>(&self, read: impl FnOnce(&Log) -> T) -> T {
        read(&self.log.lock())
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        self.collector.abort();
    }
}

async fn collect(
    mut responses: tonic::Streaming<pb::WatchResponse>,
    log: &Mutex<Log>,
    arrived: &Notify,
) -> Outcome<()> {
    while let Some(response) = responses.message().await? {
        log.lock().add(response);
        arrived.notify_waiters();
    }
    Ok(())
}
