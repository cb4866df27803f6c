//! The receiving side: checks who calls and what it says, and hands it to openraft or to the node.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, StreamAppendError, TransferLeaderRequest};
use parking_lot::Mutex;
use setpoint_api::setpoint::peer::v1 as proto;
use setpoint_api::setpoint::peer::v1::append_reply::Verdict;
use setpoint_api::setpoint::peer::v1::peer_server::{Peer, PeerServer};
use setpoint_types::NodeId;
use tonic::{Request, Response, Status, Streaming};
use tracing::{info, warn};

use super::MESSAGE_BYTES_MAX;
use super::complaints::Complaints;
use super::wire::{self, Malformed};
use crate::error::CallError;
use crate::forward::{self, Answer, Question};
use crate::host::ServiceRefusal;
use crate::node::{Leadership, Node};
use crate::raft::{LogId, Snapshot, TypeConfig, Vote};
use crate::snapshot::SnapshotFiles;

/// The gRPC service of a node's peer listener.
pub type PeerService = PeerServer<PeerHandler>;

pub struct PeerHandler {
    node: Node,
    complaints: Complaints,
}

/// How long a member that is removed is waited for to take the answers to what it had asked before.
const FAREWELL: Duration = Duration::from_secs(1);

impl PeerHandler {
    pub(crate) fn service(node: Node) -> PeerService {
        PeerServer::new(Self { node, complaints: Complaints::default() })
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// The caller and what it says, unless it is no peer or not any more (invariant S15).
    fn admit<T>(&self, request: Request<T>) -> Result<(NodeId, T), Status> {
        let from = self.identify(&request)?;
        if self.node.was_removed(from) {
            let status = not_member(from);
            self.complaints.about(status.message());
            return Err(status);
        }
        Ok((from, request.into_inner()))
    }

    fn identify<T>(&self, request: &Request<T>) -> Result<NodeId, Status> {
        let admitted = self.node.identity().admit(request.metadata());
        admitted.inspect_err(|status| self.complaints.about(status.message()))
    }

    /// An append, from a leader that thereby shows that it is there.
    fn read_append(
        node: &Node,
        from: NodeId,
        request: proto::AppendRequest,
    ) -> Result<AppendEntriesRequest<TypeConfig>, Malformed> {
        let append = wire::read_append(request, from)?;
        node.heard(Leadership { leader: from, term: append.vote.leader_id.term });
        Ok(append)
    }

    /// openraft refuses a snapshot that contradicts what is committed here by panicking; so we ask first.
    async fn contradicts(&self, last: LogId) -> Result<bool, Status> {
        let committed = self.node.raft().with_raft_state(|state| state.local_committed().copied()).await;
        let committed = committed.map_err(stopped)?;
        Ok(committed.is_some_and(|committed| last > committed && last.index <= committed.index))
    }
}

fn not_member(from: NodeId) -> Status {
    Status::permission_denied(format!(
        "node {from} is not a member any more; it was removed from the cluster"
    ))
}

fn stopped(error: impl std::fmt::Display) -> Status {
    Status::unavailable(format!("this node has stopped: {error}"))
}

fn verdict(verdict: Verdict, newer: Option<&Vote>) -> proto::AppendReply {
    proto::AppendReply { verdict: verdict.into(), newer: newer.map(wire::ballot) }
}

type ReplyStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Peer for PeerHandler {
    type AppendStream = ReplyStream<proto::AppendReply>;
    type ForwardStream = ReplyStream<proto::ForwardReply>;

    async fn append(
        &self,
        request: Request<Streaming<proto::AppendRequest>>,
    ) -> Result<Response<Self::AppendStream>, Status> {
        let (from, requests) = self.admit(request)?;
        // openraft takes a stream that cannot fail, so a malformed request ends it and is reported behind it.
        let malformed = Arc::new(Mutex::new(None));
        let appends = read_appends(self.node.clone(), from, requests, Arc::clone(&malformed));
        let results = self.node.raft().stream_append(appends).map(|result| match result {
            Ok(Ok(_)) => Ok(verdict(Verdict::Accepted, None)),
            Ok(Err(StreamAppendError::Conflict(_))) => Ok(verdict(Verdict::Conflict, None)),
            Ok(Err(StreamAppendError::HigherVote(vote))) => Ok(verdict(Verdict::Outvoted, Some(&vote))),
            Err(fatal) => Err(stopped(fatal)),
        });
        let complaint = stream::once(async move { malformed.lock().take() }).filter_map(
            |malformed: Option<Malformed>| async move { malformed.map(|malformed| Err(malformed.into())) },
        );
        Ok(Response::new(results.chain(complaint).boxed()))
    }

    async fn heartbeat(
        &self,
        request: Request<proto::AppendRequest>,
    ) -> Result<Response<proto::AppendReply>, Status> {
        let (from, request) = self.admit(request)?;
        let append = Self::read_append(&self.node, from, request)?;
        let reply = match self.node.raft().append_entries(append).await.map_err(stopped)? {
            AppendEntriesResponse::Success | AppendEntriesResponse::PartialSuccess(_) => {
                verdict(Verdict::Accepted, None)
            }
            AppendEntriesResponse::Conflict => verdict(Verdict::Conflict, None),
            AppendEntriesResponse::HigherVote(vote) => verdict(Verdict::Outvoted, Some(&vote)),
        };
        Ok(Response::new(reply))
    }

    async fn vote(&self, request: Request<proto::VoteRequest>) -> Result<Response<proto::VoteReply>, Status> {
        let (from, request) = self.admit(request)?;
        let request = wire::read_vote_request(request, from)?;
        let response = self.node.raft().vote(request).await.map_err(stopped)?;
        Ok(Response::new(wire::vote_reply(&response)))
    }

    async fn pre_vote(
        &self,
        request: Request<proto::VoteRequest>,
    ) -> Result<Response<proto::VoteReply>, Status> {
        let (from, request) = self.admit(request)?;
        let request = wire::read_vote_request(request, from)?;
        let response = self.node.raft().pre_vote(request).await.map_err(stopped)?;
        Ok(Response::new(wire::vote_reply(&response)))
    }

    async fn transfer_leader(
        &self,
        request: Request<proto::TransferLeaderRequest>,
    ) -> Result<Response<proto::TransferLeaderReply>, Status> {
        let (from, request) = self.admit(request)?;
        let leader = wire::owned(wire::leader(request.leader)?, from)?;
        let request = TransferLeaderRequest::new(leader, request.to, request.last_log.map(wire::read_log_id));
        let outcome = self.node.raft().handle_transfer_leader(request).await.map_err(stopped)?;
        let reason = outcome.err().map(|error| error.to_string());
        let reply =
            proto::TransferLeaderReply { accepted: reason.is_none(), reason: reason.unwrap_or_default() };
        Ok(Response::new(reply))
    }

    async fn offer_snapshot(
        &self,
        request: Request<proto::SnapshotOffer>,
    ) -> Result<Response<proto::SnapshotReply>, Status> {
        let (from, offer) = self.admit(request)?;
        let leader = wire::owned(wire::leader(offer.leader)?, from)?;
        self.node.heard(Leadership { leader: from, term: leader.leader_id.term });
        let vote = self.node.raft().with_raft_state(|state| *state.vote_ref()).await.map_err(stopped)?;
        Ok(Response::new(proto::SnapshotReply { ballot: Some(wire::ballot(&vote)) }))
    }

    async fn install_snapshot(
        &self,
        request: Request<Streaming<proto::SnapshotPart>>,
    ) -> Result<Response<proto::SnapshotReply>, Status> {
        let (from, parts) = self.admit(request)?;
        let received = self.node.receiver().receive(parts).await.map_err(|error| {
            warn!(node = %from, %error, "a snapshot was not received");
            let message = error.to_string();
            if error.is_senders_fault() {
                Status::invalid_argument(message)
            } else {
                Status::aborted(message)
            }
        })?;
        let leader = wire::owned(received.leader, from)?;
        if let Some(last) = received.meta.last_log_id
            && self.contradicts(last).await?
        {
            return Err(Malformed("the snapshot contradicts what is committed here").into());
        }
        info!(node = %from, "a snapshot was received");
        let files = SnapshotFiles::Received(received.directory.clone());
        let snapshot = Snapshot { meta: received.meta.clone(), snapshot: files };
        let installed = self.node.raft().install_full_snapshot(leader, snapshot).await.map_err(stopped)?;
        // Whatever was not needed or not moved away.
        let directory = received.directory.clone();
        let _ = tokio::fs::remove_dir_all(directory).await;
        drop(received);
        Ok(Response::new(proto::SnapshotReply { ballot: Some(wire::ballot(&installed.vote)) }))
    }

    async fn forward(
        &self,
        request: Request<Streaming<proto::ForwardRequest>>,
    ) -> Result<Response<Self::ForwardStream>, Status> {
        let (from, requests) = self.admit(request)?;
        if !self.node.is_leading() {
            return Err(Status::failed_precondition("this node does not lead"));
        }
        let node = self.node.clone();
        let removed = async move {
            node.until_removed(from).await;
            tokio::time::sleep(FAREWELL).await;
        };
        // Whoever is removed while it forwards is no longer listened to; dropping the replies ends the answering, too.
        let replies = forward::serve(self.node.clone(), from, requests).take_until(removed);
        let node = self.node.clone();
        let farewell = stream::once(async move { node.was_removed(from) })
            .filter_map(move |removed| async move { removed.then(|| Err(not_member(from))) });
        Ok(Response::new(replies.chain(farewell).boxed()))
    }

    async fn acquaintance(
        &self,
        request: Request<proto::AcquaintanceRequest>,
    ) -> Result<Response<proto::AcquaintanceReply>, Status> {
        let standing = self.node.standing(self.identify(&request)?);
        Ok(Response::new(proto::AcquaintanceReply { standing: standing.into_wire().into() }))
    }

    async fn join(&self, request: Request<proto::JoinRequest>) -> Result<Response<proto::JoinReply>, Status> {
        let question = Question::Join(forward::newcomer(request.into_inner()));
        match self.node.ask_leader(question).await {
            Ok(Answer::Join(admission)) => Ok(Response::new(forward::admission_reply(admission))),
            Ok(_) => Err(Status::internal("the leader answered another question")),
            Err(CallError::Refused(ServiceRefusal::Final(reason))) => Err(Status::permission_denied(reason)),
            Err(CallError::Refused(ServiceRefusal::NotNow(reason))) => Err(Status::aborted(reason)),
            Err(error) => Err(Status::unavailable(error.to_string())),
        }
    }
}

/// The appends of one stream, up to its end or the first malformed one.
fn read_appends(
    node: Node,
    from: NodeId,
    requests: Streaming<proto::AppendRequest>,
    malformed: Arc<Mutex<Option<Malformed>>>,
) -> impl Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + 'static {
    stream::unfold((node, requests, malformed), move |(node, mut requests, malformed)| async move {
        let request = requests.message().await.ok().flatten()?;
        match PeerHandler::read_append(&node, from, request) {
            Ok(append) => Some((append, (node, requests, malformed))),
            Err(problem) => {
                warn!(node = %from, %problem, "a replication stream was ended");
                *malformed.lock() = Some(problem);
                None
            }
        }
    })
}
