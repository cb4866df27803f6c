//! The watch steps of a side: what to send on a stream, and how long to wait for what.
//!
//! Waiting is the whole difficulty. A create request is always answered. Everything else is told by [`Wait`]: how many
//! events and cancellations are due, whether a cancel or progress request is answered at all. Where no progress is due,
//! the side listens for a short while, so that an answer nobody should send is noticed too.

use std::time::Duration;

use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::watch_request::RequestUnion;
use tokio::time::Instant;

use crate::answer::{Answer, Received};
use crate::resolve::{Bearings, Resolver};
use crate::side::{PATIENCE, Side, Wait};
use crate::step::{Step, StreamSlot};
use crate::stream::{NO_WATCH, WatchStream, is_progress};

/// How long each stream may take to deliver what is due.
const SETTLE_PATIENCE: Duration = Duration::from_secs(30);
/// How long to listen for an answer that must not come.
const SILENCE: Duration = Duration::from_millis(120);
/// How often a progress request is repeated: servers do not answer it while a watch on the stream lags.
const PROGRESS_REPEAT: Duration = Duration::from_millis(20);

impl Side {
    pub(crate) async fn watch_step(&mut self, step: &Step, bearings: &Bearings, wait: &Wait) -> Answer {
        match step {
            Step::Watch(watch) => {
                let request = self.watch_request(watch, bearings);
                let stream = self.stream(watch.stream);
                stream.send(Some(RequestUnion::CreateRequest(request))).await;
                let created = |log: &crate::stream::Log| log.unreported().any(|response| response.created);
                stream.wait_until(Instant::now() + PATIENCE, created).await;
                Answer::WatchCreated(stream.report_first(|response| response.created))
            }
            Step::CancelWatch { stream, id } => {
                let request = pb::WatchCancelRequest { watch_id: *id };
                let stream = self.stream(*stream);
                stream.send(Some(RequestUnion::CancelRequest(request))).await;
                let canceled = |response: &pb::WatchResponse| response.canceled && response.watch_id == *id;
                if wait.answered {
                    stream.wait_until(Instant::now() + PATIENCE, |log| log.unreported().any(canceled)).await;
                }
                // If nothing is due, whatever comes later is compared when the stream settles.
                let answer = if wait.answered { stream.report_first(canceled) } else { None };
                Answer::WatchCanceled(answer)
            }
            Step::Progress { .. } if wait.futile => Answer::Nothing,
            Step::Progress { stream } => {
                let patience = if wait.answered { PATIENCE } else { SILENCE };
                Answer::Progress(ask_progress(self.stream(*stream), wait.revision, patience).await)
            }
            Step::EmptyWatchRequest { stream } => {
                self.stream(*stream).send(None).await;
                Answer::Nothing
            }
            Step::CloseStream { stream } => {
                self.streams.remove(stream);
                Answer::Nothing
            }
            Step::Settle => self.settle(wait).await,
            _ => Answer::Nothing,
        }
    }

    fn watch_request(&self, step: &crate::step::WatchStep, bearings: &Bearings) -> pb::WatchCreateRequest {
        Resolver { bearings, leases: self.lease_slots() }.watch(step)
    }

    /// The stream in that slot, opened if need be.
    fn stream(&mut self, slot: StreamSlot) -> &WatchStream {
        let (client, request) = (self.clients().watch, self.request(()));
        self.streams.entry(slot).or_insert_with(|| WatchStream::open(client, request.metadata().clone()))
    }

    async fn settle(&mut self, wait: &Wait) -> Answer {
        let mut late = Vec::new();
        if wait.scout && !self.scout(wait.revision).await {
            late.push("a watch from the current revision does not catch up".to_owned());
        }
        let mut settled = Vec::with_capacity(self.streams.len());
        for (slot, stream) in &self.streams {
            let complaints = settle_stream(*slot, stream, wait).await;
            let mut received: Received = stream.take_all();
            received.complaints.extend(complaints);
            received.complaints.append(&mut late);
            settled.push((*slot, received));
        }
        Answer::Settled(settled)
    }

    /// Waits until a new watch that starts at the current revision has caught up. etcd's loop over lagging watches takes
    /// all of them in one pass, so those created before have caught up then too.
    async fn scout(&self, revision: i64) -> bool {
        let stream = WatchStream::open(self.clients().watch, self.request(()).metadata().clone());
        let request =
            pb::WatchCreateRequest { key: vec![0].into(), start_revision: revision, ..Default::default() };
        stream.send(Some(RequestUnion::CreateRequest(request))).await;
        ask_progress(&stream, revision, PATIENCE).await.is_some()
    }
}

/// Waits for everything that is due on the stream. Returns what did not come.
async fn settle_stream(slot: StreamSlot, stream: &WatchStream, wait: &Wait) -> Vec<String> {
    let deadline = Instant::now() + SETTLE_PATIENCE;
    let mut overdue = Vec::new();
    let due = |due: &std::collections::BTreeMap<(StreamSlot, i64), usize>| {
        due.range((slot, i64::MIN)..=(slot, i64::MAX))
            .map(|((_, id), count)| (*id, *count))
            .collect::<Vec<_>>()
    };
    for (id, count) in due(&wait.events) {
        if !stream.wait_until(deadline, |log| log.events.get(&id).copied().unwrap_or(0) >= count).await {
            let got = stream.with_log(|log| log.events.get(&id).copied().unwrap_or(0));
            overdue.push(format!("watch {id} delivered {got} of {count} events"));
        }
    }
    for (id, count) in due(&wait.cancels) {
        if !stream.wait_until(deadline, |log| log.cancels.get(&id).copied().unwrap_or(0) >= count).await {
            overdue.push(format!("watch {id} was not canceled"));
        }
    }
    // Whatever was overdue above would only make this wait in vain.
    if wait.barrier.contains(&slot)
        && overdue.is_empty()
        && ask_progress(stream, wait.revision, SETTLE_PATIENCE).await.is_none()
    {
        overdue.push(format!("no progress to revision {} reported", wait.revision));
    }
    overdue
}

/// Asks until the stream reports progress up to the revision. The answer stays in the log, because `rules` must see it
/// in its place among the events.
async fn ask_progress(stream: &WatchStream, revision: i64, patience: Duration) -> Option<pb::WatchResponse> {
    let deadline = Instant::now() + patience;
    let before = stream.with_log(|log| log.progress_count);
    while Instant::now() < deadline {
        stream.send(Some(RequestUnion::ProgressRequest(pb::WatchProgressRequest {}))).await;
        let until = deadline.min(Instant::now() + PROGRESS_REPEAT);
        let reported = |log: &crate::stream::Log| log.progress_count > before && log.progress >= revision;
        if stream.wait_until(until, reported).await {
            break;
        }
        if stream.with_log(|log| log.ended.is_some()) {
            break;
        }
    }
    stream.with_log(|log| {
        if log.progress_count == before {
            return None;
        }
        log.unreported()
            .rev()
            .find(|response| is_progress(response) && response.watch_id == NO_WATCH)
            .cloned()
    })
}
