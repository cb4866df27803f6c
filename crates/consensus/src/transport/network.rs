//! openraft's network traits over the peer service.
//!
//! openraft makes one client per member and purpose and keeps it; what they share is in `links`. A peer that does not
//! answer is reported as unreachable, which makes openraft back off.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, Stream, StreamExt};
use openraft::RPCTypes;
use openraft::error::ReplicationClosed;
use openraft::network::{
    Backoff, NetAppend, NetBackoff, NetSnapshot, NetStreamAppend, NetTransferLeader, NetVote, RPCOption,
    RaftNetworkFactory, stream_append_sequential,
};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendError, StreamAppendResult,
    TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use setpoint_api::setpoint::peer::v1 as proto;
use setpoint_api::setpoint::peer::v1::append_reply::Verdict;
use setpoint_types::NodeId;
use tokio::time::{sleep, timeout};
use tonic::{Response, Status};
use tracing::info;

use super::append::{self, Session};
use super::connector::Lane;
use super::links::{Link, Links};
use super::wire;
use crate::peer::Peer;
use crate::raft::{RpcError, Snapshot, SnapshotError, TypeConfig, Vote};
use crate::snapshot::{self, SnapshotFiles};
use crate::state::Progress;

pub struct NetworkFactory {
    links: Arc<Links>,
    progress: Arc<Progress>,
}

impl NetworkFactory {
    pub fn new(links: Arc<Links>, progress: Arc<Progress>) -> Self {
        Self { links, progress }
    }

    fn client(&self, target: u64, node: &Peer, replication: Replication) -> Network {
        let target = NodeId(target);
        self.links.learn(target, &node.address);
        Network {
            links: Arc::clone(&self.links),
            progress: Arc::clone(&self.progress),
            target,
            replication,
            failures: 0,
        }
    }
}

impl RaftNetworkFactory<TypeConfig> for NetworkFactory {
    type Network = Network;

    async fn new_client(&mut self, target: u64, node: &Peer) -> Network {
        self.client(target, node, Replication::Pipelined)
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &Peer) -> Network {
        self.client(target, node, Replication::Heartbeats)
    }

    async fn new_snapshot_client(&mut self, target: u64, node: &Peer) -> Network {
        self.client(target, node, Replication::Pipelined)
    }
}

/// How a client sends appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replication {
    Pipelined,
    Heartbeats,
}

pub struct Network {
    links: Arc<Links>,
    progress: Arc<Progress>,
    target: NodeId,
    replication: Replication,
    /// Sessions that could not be opened, one after the other.
    failures: u32,
}

/// The pause after a session that could not be opened, and what it grows to.
const PAUSE: Duration = Duration::from_millis(25);
const PAUSE_MAX: Duration = Duration::from_millis(400);

impl Network {
    fn link(&self) -> Result<Arc<Link>, RpcError> {
        Ok(self.links.get(self.target)?)
    }

    async fn open<S>(&self, input: S) -> Result<Session<S>, RpcError>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + Unpin,
    {
        Session::open(self.link()?, input, self.links.timing().replication_stall).await
    }
}

/// A follower applies what it hears is committed, and acknowledges it to its clients.
fn note_commit(progress: &Progress, request: &AppendEntriesRequest<TypeConfig>) {
    if let Some(committed) = request.leader_commit {
        progress.note_committed(committed.into());
    }
}

/// A unary call's answer, within `patience`.
async fn within<T>(
    patience: Duration,
    link: &Link,
    action: RPCTypes,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, RpcError> {
    match timeout(patience, call).await {
        Ok(Ok(response)) => {
            link.worked();
            Ok(response.into_inner())
        }
        Ok(Err(status)) => Err(link.failed(&status).into()),
        Err(_) => Err(link.timed_out(action, patience).into()),
    }
}

impl NetBackoff<TypeConfig> for Network {
    fn backoff(&self) -> Option<Backoff> {
        None
    }
}

impl NetAppend<TypeConfig> for Network {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RpcError> {
        let link = self.link()?;
        note_commit(&self.progress, &request);
        let (term, previous) = (request.vote.leader_id.term, request.prev_log_id);
        let mut client = link.client(Lane::Control)?;
        let call = client.heartbeat(link.request(wire::append(request)));
        let reply = within(option.soft_ttl(), &link, RPCTypes::AppendEntries, call).await?;
        let refusal = match reply.verdict() {
            Verdict::Accepted => return Ok(AppendEntriesResponse::Success),
            Verdict::Conflict => append::conflict(&link, term, previous)?,
            Verdict::Outvoted => append::outvoted(&link, reply.newer)?,
            Verdict::Unspecified => return Err(link.complain("gave an unknown verdict").into()),
        };
        Ok(match refusal {
            StreamAppendError::Conflict(_) => AppendEntriesResponse::Conflict,
            StreamAppendError::HigherVote(vote) => AppendEntriesResponse::HigherVote(vote),
        })
    }
}

type AppendResults<'s> = BoxStream<'s, Result<StreamAppendResult<TypeConfig>, RpcError>>;

impl NetStreamAppend<TypeConfig> for Network {
    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<'s, Result<AppendResults<'s>, RpcError>>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + Unpin + 'static,
    {
        if self.replication == Replication::Heartbeats {
            return stream_append_sequential(self, input, option);
        }
        async move {
            let progress = Arc::clone(&self.progress);
            let input = input.inspect(move |request| note_commit(&progress, request));
            let session = match self.open(input).await {
                Ok(session) => session,
                Err(error) => {
                    // openraft backs off where it makes requests, and of a session that was never opened it makes none:
                    // without a pause here it would try again at once, thousands of times a second.
                    sleep((PAUSE * 2u32.saturating_pow(self.failures.min(10))).min(PAUSE_MAX)).await;
                    self.failures += 1;
                    return Err(error);
                }
            };
            self.failures = 0;
            let results = stream::unfold(Some(session), |session| async move {
                let mut session = session?;
                let result = session.next().await?;
                // Whatever is not an acknowledgement ends the session.
                let rest = matches!(result, Ok(Ok(_))).then_some(session);
                Some((result, rest))
            });
            Ok(results.boxed())
        }
        .boxed()
    }
}

impl NetVote<TypeConfig> for Network {
    async fn vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RpcError> {
        let link = self.link()?;
        let mut client = link.client(Lane::Control)?;
        let call = client.vote(link.request(wire::vote_request(&request)));
        let reply = within(option.soft_ttl(), &link, RPCTypes::Vote, call).await?;
        Ok(wire::read_vote_reply(reply).map_err(|malformed| link.unreachable(&malformed))?)
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RpcError> {
        let link = self.link()?;
        let mut client = link.client(Lane::Control)?;
        let call = client.pre_vote(link.request(wire::vote_request(&request)));
        let reply = within(option.soft_ttl(), &link, RPCTypes::Vote, call).await?;
        Ok(wire::read_vote_reply(reply).map_err(|malformed| link.unreachable(&malformed))?)
    }
}

impl NetTransferLeader<TypeConfig> for Network {
    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, RpcError> {
        let link = self.link()?;
        let message = proto::TransferLeaderRequest {
            leader: Some(wire::ballot(request.from_leader())),
            to: *request.to_node_id(),
            last_log: request.last_log_id().copied().map(wire::log_id),
        };
        let mut client = link.client(Lane::Control)?;
        let call = client.transfer_leader(link.request(message));
        let reply = within(option.hard_ttl(), &link, RPCTypes::TransferLeader, call).await?;
        // openraft only logs the outcome; the leadership itself is what callers watch.
        if !reply.accepted {
            info!(node = %self.target, reason = reply.reason, "a leadership transfer was declined");
        }
        Ok(Ok(()))
    }
}

impl NetSnapshot<TypeConfig> for Network {
    type SnapshotData = SnapshotFiles;

    async fn full_snapshot(
        &mut self,
        leader: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, SnapshotError> {
        let link = self.link()?;
        let SnapshotFiles::Offered(depot) = snapshot.snapshot else {
            return Err(link.complain("was to be sent a snapshot that is not ours").into());
        };
        let stall = self.links.timing().snapshot_stall;
        let vote = tokio::select! {
            closed = cancel => return Err(closed.into()),
            () = link.retired.cancelled() => return Err(link.complain("has moved").into()),
            sent = snapshot::send(&link, leader, &snapshot.meta, &depot, stall) => sent?,
        };
        if let Some(last) = snapshot.meta.last_log_id.filter(|_| vote == leader) {
            link.acknowledged.note(leader.leader_id.term, last);
        }
        Ok(SnapshotResponse::new(vote))
    }
}
