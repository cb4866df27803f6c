//! The sending side of replication: a pipeline of appends over one stream, answered in order.
//!
//! Everything happens inside the stream of results that openraft polls, without a task of its own: requests are read
//! and sent, answers are matched to requests, and the age of the oldest unanswered one is watched. When openraft drops
//! the stream, its request stream goes with it at once. That matters: openraft's next session waits for a lock that a
//! forgotten request stream would hold.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use openraft::RPCTypes;
use openraft::raft::{AppendEntriesRequest, StreamAppendError, StreamAppendResult};
use setpoint_api::setpoint::peer::v1 as proto;
use setpoint_api::setpoint::peer::v1::append_reply::Verdict;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tracing::error;

use super::connector::Lane;
use super::links::Link;
use super::wire;
use crate::raft::{LogId, RpcError, TypeConfig};

/// Sent and not answered yet. Beyond either, no further request is read from openraft.
const IN_FLIGHT_REQUESTS: usize = 64;
const IN_FLIGHT_BYTES: usize = 16 << 20;

pub struct Session<S> {
    link: Arc<Link>,
    stall: Duration,
    /// None when openraft has no more to send in this session.
    input: Option<S>,
    requests: Option<mpsc::Sender<proto::AppendRequest>>,
    replies: Streaming<proto::AppendReply>,
    in_flight: VecDeque<Sent>,
    bytes: usize,
}

struct Sent {
    term: u64,
    previous: Option<LogId>,
    last: Option<LogId>,
    bytes: usize,
    at: Instant,
}

enum Event {
    Request(Option<AppendEntriesRequest<TypeConfig>>),
    Reply(Result<Option<proto::AppendReply>, tonic::Status>),
    Stalled,
    Retired,
}

impl<S> Session<S>
where
    S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + Unpin,
{
    pub async fn open(link: Arc<Link>, input: S, stall: Duration) -> Result<Self, RpcError> {
        let (requests, queue) = mpsc::channel(IN_FLIGHT_REQUESTS);
        let mut client = link.client(Lane::Replication)?;
        let opening = client.append(link.request(ReceiverStream::new(queue)));
        let opened =
            timeout(stall, opening).await.map_err(|_| link.timed_out(RPCTypes::AppendEntries, stall))?;
        let replies = opened.map_err(|status| link.failed(&status))?.into_inner();
        let requests = Some(requests);
        Ok(Self { link, stall, input: Some(input), requests, replies, in_flight: VecDeque::new(), bytes: 0 })
    }

    /// The result of the next request in order. None when every request is answered and there are no more.
    pub async fn next(&mut self) -> Option<Result<StreamAppendResult<TypeConfig>, RpcError>> {
        loop {
            if self.input.is_none() && self.in_flight.is_empty() {
                return None;
            }
            match self.event().await {
                Event::Request(Some(request)) => self.send(request),
                Event::Request(None) => {
                    self.input = None;
                    // Ends our half, so that the receiver ends its half when it has answered everything.
                    self.requests = None;
                }
                Event::Reply(Ok(Some(reply))) => return Some(self.answer(reply)),
                Event::Reply(Ok(None)) => {
                    return Some(Err(self.link.complain("ended the replication stream").into()));
                }
                Event::Reply(Err(status)) => return Some(Err(self.link.failed(&status).into())),
                Event::Stalled => {
                    return Some(Err(self.link.timed_out(RPCTypes::AppendEntries, self.stall).into()));
                }
                Event::Retired => return Some(Err(self.link.complain("has moved").into())),
            }
        }
    }

    async fn event(&mut self) -> Event {
        let has_room = self.in_flight.len() < IN_FLIGHT_REQUESTS && self.bytes < IN_FLIGHT_BYTES;
        let input = self.input.as_mut().filter(|_| has_room);
        let deadline = self.in_flight.front().map(|oldest| oldest.at + self.stall);
        tokio::select! {
            // Answers first: they make room, and they are what commits.
            biased;
            reply = self.replies.message() => Event::Reply(reply),
            request = next_request(input) => Event::Request(request),
            () = reached(deadline) => Event::Stalled,
            () = self.link.retired.cancelled() => Event::Retired,
        }
    }

    fn send(&mut self, request: AppendEntriesRequest<TypeConfig>) {
        let term = request.vote.leader_id.term;
        let previous = request.prev_log_id;
        let last = request.entries.last().map(|entry| entry.log_id).or(previous);
        let message = wire::append(request);
        let bytes = message.entries.len();
        self.in_flight.push_back(Sent { term, previous, last, bytes, at: Instant::now() });
        self.bytes += bytes;
        // There is room for all that is in flight. If the stream has ended, its end is the next thing we read.
        let _ = self.requests.as_ref().map(|requests| requests.try_send(message));
    }

    fn answer(&mut self, reply: proto::AppendReply) -> Result<StreamAppendResult<TypeConfig>, RpcError> {
        let verdict = reply.verdict();
        let Some(sent) = self.in_flight.pop_front() else {
            return Err(self.link.complain("answered what was not asked").into());
        };
        self.bytes -= sent.bytes;
        self.link.worked();
        match verdict {
            Verdict::Accepted => {
                if let Some(last) = sent.last {
                    self.link.acknowledged.note(sent.term, last);
                }
                Ok(Ok(sent.last))
            }
            Verdict::Conflict => conflict(&self.link, sent.term, sent.previous).map(Err),
            Verdict::Outvoted => outvoted(&self.link, reply.newer).map(Err),
            Verdict::Unspecified => Err(self.link.complain("gave an unknown verdict").into()),
        }
    }
}

async fn next_request<S>(input: Option<&mut S>) -> Option<AppendEntriesRequest<TypeConfig>>
where
    S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Unpin,
{
    match input {
        Some(input) => input.next().await,
        None => std::future::pending().await,
    }
}

async fn reached(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// A conflict at `previous`, unless the peer has acknowledged that very position to us before.
pub fn conflict(
    link: &Link,
    term: u64,
    previous: Option<LogId>,
) -> Result<StreamAppendError<TypeConfig>, RpcError> {
    let Some(previous) = previous else {
        return Err(link.complain("denied the beginning of the log").into());
    };
    if link.acknowledged.contradicts(term, previous) {
        let problem = "has lost entries it had acknowledged; remove it and add it again under a new id";
        if link.acknowledged.is_first_denial() {
            error!(node = %link.node, index = previous.index, "a peer {problem}");
        }
        return Err(link.complain(problem).into());
    }
    Ok(StreamAppendError::Conflict(previous))
}

pub fn outvoted(
    link: &Link,
    newer: Option<proto::Ballot>,
) -> Result<StreamAppendError<TypeConfig>, RpcError> {
    match wire::newer(newer, link.us()) {
        Ok(vote) => Ok(StreamAppendError::HigherVote(vote)),
        Err(malformed) => Err(link.unreachable(&malformed).into()),
    }
}
