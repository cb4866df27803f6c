//! The cluster itself: its members, how each of them is, and the upkeep of their data. Spoken over etcd's own services.

use bytes::Bytes;
use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::cluster_client::ClusterClient;
use setpoint_api::etcdserverpb::kv_client::KvClient;
use setpoint_api::etcdserverpb::maintenance_client::MaintenanceClient;
use setpoint_types::{NodeId, Revision};
use tonic::Streaming;

use crate::attempt::Safety;
use crate::call::Call;
use crate::client::Client;
use crate::error::Error;
use crate::pool::Slot;

/// The upkeep of a cluster.
///
/// **Guarantees**: what changes something (`move_leader`, `compact`) is sent once, since it carries no operation id, and again only where
/// it surely did not arrive. **Assumes** that whoever wants to know of a certain node gives the client that endpoint alone: otherwise
/// any node answers. **Does not promise** that an answer of one node is the others' view, nor that a node that was made the leader
/// still is when the answer comes.
#[derive(Clone)]
pub struct Upkeep {
    client: Client,
}

/// A node of the cluster, as the others know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub id: NodeId,
    /// Empty until it has started for the first time.
    pub name: String,
    pub peer_urls: Vec<String>,
    pub client_urls: Vec<String>,
    /// It receives the log but has no vote.
    pub learner: bool,
}

/// How the node is that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    pub id: NodeId,
    /// None while there is none that it knows of.
    pub leader: Option<NodeId>,
    pub term: u64,
    /// Of the log: committed as far as it knows, and applied.
    pub committed: u64,
    pub applied: u64,
    pub revision: Revision,
    pub stored_bytes: u64,
    pub live_bytes: u64,
    pub version: String,
    /// Alarms, and that there is no leader.
    pub errors: Vec<String>,
}

/// A backup on its way.
///
/// **Guarantees**: an end without an error is the end of a complete one. **Does not promise** to be quick: it comes at the pace of the
/// node's disk.
pub struct BackupStream {
    chunks: Streaming<pb::SnapshotResponse>,
    call: Call,
    _slot: Slot,
}

impl Client {
    pub fn upkeep(&self) -> Upkeep {
        Upkeep { client: self.clone() }
    }
}

impl Upkeep {
    pub async fn members(&self) -> Result<Vec<Member>, Error> {
        let call = Call::read("list", "members");
        let request = pb::MemberListRequest { linearizable: false };
        let sent = self.client.call(&call, request, |wire, request| async move {
            ClusterClient::new(wire).member_list(request).await
        });
        let member = |it: pb::Member| Member {
            id: NodeId(it.id),
            name: it.name,
            peer_urls: it.peer_urls,
            client_urls: it.client_urls,
            learner: it.is_learner,
        };
        Ok(sent.await?.0.into_inner().members.into_iter().map(member).collect())
    }

    /// Of whichever node is asked: give the client one endpoint to know which.
    pub async fn status(&self) -> Result<MemberStatus, Error> {
        let call = Call::read("ask", "a member's status");
        let sent = self.client.call(&call, pb::StatusRequest {}, |wire, request| async move {
            MaintenanceClient::new(wire).status(request).await
        });
        let answer = sent.await?.0.into_inner();
        let header = answer.header.unwrap_or_default();
        Ok(MemberStatus {
            id: NodeId(header.member_id),
            leader: (answer.leader != 0).then_some(NodeId(answer.leader)),
            term: answer.raft_term,
            committed: answer.raft_index,
            applied: answer.raft_applied_index,
            revision: Revision::new(header.revision.max(0).unsigned_abs()),
            stored_bytes: answer.db_size.max(0).unsigned_abs(),
            live_bytes: answer.db_size_in_use.max(0).unsigned_abs(),
            version: answer.version,
            errors: answer.errors,
        })
    }

    /// Makes another member the leader. Has to be sent to the one that leads.
    pub async fn move_leader(&self, to: NodeId) -> Result<(), Error> {
        let call = Call::write("move the leadership to", to.0, Safety::Once);
        let request = pb::MoveLeaderRequest { target_id: to.0 };
        let sent = self.client.call(&call, request, |wire, request| async move {
            MaintenanceClient::new(wire).move_leader(request).await
        });
        sent.await.map(drop)
    }

    /// Forgets what was before a revision. With `freed`, answers when the space is free on the node that answers.
    pub async fn compact(&self, revision: Revision, freed: bool) -> Result<(), Error> {
        let call = Call::write("compact", format!("revision {revision}"), Safety::Once);
        let request = pb::CompactionRequest { revision: revision.wire(), physical: freed };
        let sent = self
            .client
            .call(&call, request, |wire, request| async move { KvClient::new(wire).compact(request).await });
        sent.await.map(drop)
    }

    /// A copy of everything, consistent, as one stream of bytes.
    pub async fn backup(&self) -> Result<BackupStream, Error> {
        let call = Call::read("back up", "the cluster");
        let bytes_max = self.client.answer_bytes_max();
        let opened = self.client.open(&call, pb::SnapshotRequest {}, move |wire, request| async move {
            MaintenanceClient::new(wire).max_decoding_message_size(bytes_max).snapshot(request).await
        });
        let (answer, slot) = opened.await?;
        Ok(BackupStream { chunks: answer.into_inner(), call, _slot: slot })
    }
}

impl BackupStream {
    /// The next bytes. None: that was all.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        match self.chunks.message().await {
            Ok(chunk) => Ok(chunk.map(|chunk| chunk.blob)),
            Err(status) => Err(Error::Unanswered {
                operation: self.call.operation,
                target: self.call.target.clone(),
                attempts: 1,
                ambiguous: false,
                last: Box::new(status.into()),
            }),
        }
    }
}
