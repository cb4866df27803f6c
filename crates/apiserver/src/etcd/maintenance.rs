//! Looking after a node: status, alarms, space, hashes, backups, moving the leadership.

use std::pin::Pin;
use std::time::Duration;

use futures::Stream;
use setpoint_access::{Need, Verb};
use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::alarm_request::AlarmAction as WireAction;
use setpoint_api::etcdserverpb::maintenance_server::Maintenance;
use setpoint_consensus::{MemberError, Role};
use setpoint_store::Response as Verdict;
use setpoint_store::command::{Alarm, AlarmAction, AlarmKind, Command};
use setpoint_types::NodeId;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::context::{Context, mismatched};
use super::error::EtcdError;
use super::kv::blocking;
use super::{PROTOCOL_VERSION, STORAGE_VERSION, permit};
use crate::backup;

/// How long the receiver of a backup may take for one chunk before its place is given to another.
const RECEIVER_PATIENCE: Duration = Duration::from_secs(60);

pub struct MaintenanceService(pub Context);

type Snapshots = Pin<Box<dyn Stream<Item = Result<pb::SnapshotResponse, Status>> + Send>>;

#[tonic::async_trait]
impl Maintenance for MaintenanceService {
    async fn alarm(&self, request: Request<pb::AlarmRequest>) -> Result<Response<pb::AlarmResponse>, Status> {
        let reads = request.get_ref().action() == WireAction::Get;
        let need = Need::cluster(if reads { Verb::Get } else { Verb::Update }, "alarms");
        let pass = self.0.may_write(&request, |_| vec![need])?;
        let request = request.into_inner();
        let kind = u8::try_from(request.alarm).ok().and_then(AlarmKind::from_code);
        let action = match request.action() {
            WireAction::Get => {
                let listed = self.list_alarms(kind).await;
                return pass.settle(listed, |_| None).await;
            }
            WireAction::Activate => AlarmAction::Activate,
            WireAction::Deactivate => AlarmAction::Deactivate,
        };
        let Some(kind) = kind else {
            pass.settle(Ok::<_, Status>(()), |()| None).await?;
            return Ok(Response::new(pb::AlarmResponse {
                header: self.0.current_header(),
                alarms: Vec::new(),
            }));
        };
        let alarm = Alarm { member: NodeId(request.member_id), kind };
        let done = self.0.propose(Command::Alarm { action, alarm }).await;
        match pass.settle(done, |_| Some(self.0.replica.store.revision())).await? {
            Verdict::Alarm { revision, changed } => {
                let alarms = changed.into_iter().map(alarm_member).collect();
                Ok(Response::new(pb::AlarmResponse { header: self.0.header(revision), alarms }))
            }
            other => Err(mismatched(&other)),
        }
    }

    /// Answered from what this node knows, whether or not there is a leader.
    async fn status(
        &self,
        request: Request<pb::StatusRequest>,
    ) -> Result<Response<pb::StatusResponse>, Status> {
        self.0.may_read(&request, |_| vec![Need::cluster(Verb::Get, "status")])?;
        let status = self.0.replica.node.current_status();
        let size = self.0.replica.store.size();
        let mut errors = Vec::new();
        if status.leader.is_none() {
            errors.push(EtcdError::NoLeader.text().to_owned());
        }
        for alarm in self.0.replica.store.alarms() {
            let name = match alarm.kind {
                AlarmKind::NoSpace => "NOSPACE",
                AlarmKind::Corrupt => "CORRUPT",
            };
            errors.push(format!("memberID:{} alarm:{name} ", alarm.member.0));
        }
        let mut header = self.0.current_header();
        // The term is reported twice, and must not be of two moments.
        header.iter_mut().for_each(|header| header.raft_term = status.term);
        let applied = status.applied.unwrap_or(0);
        Ok(Response::new(pb::StatusResponse {
            header,
            version: PROTOCOL_VERSION.to_owned(),
            db_size: size.total as i64,
            leader: status.leader.map_or(0, |leader| leader.0),
            // What is applied is committed, even if we have not been told so yet.
            raft_index: status.committed.unwrap_or(0).max(applied),
            raft_term: status.term,
            raft_applied_index: applied,
            errors,
            db_size_in_use: size.live as i64,
            is_learner: status.role == Role::Learner,
            storage_version: STORAGE_VERSION.to_owned(),
            db_size_quota: self.0.quota.bytes_max() as i64,
            downgrade_info: None,
        }))
    }

    /// Compacts the tables in the background of all other work; nobody waits for it but the caller.
    async fn defragment(
        &self,
        request: Request<pb::DefragmentRequest>,
    ) -> Result<Response<pb::DefragmentResponse>, Status> {
        let pass = self.0.may_write(&request, |_| vec![Need::cluster(Verb::Update, "defragment")])?;
        let revision = self.0.replica.store.revision();
        pass.settle(self.reclaim().await, |()| Some(revision)).await?;
        Ok(Response::new(pb::DefragmentResponse { header: None }))
    }

    async fn hash(&self, request: Request<pb::HashRequest>) -> Result<Response<pb::HashResponse>, Status> {
        self.0.may_read(&request, |_| vec![Need::cluster(Verb::Get, "hash")])?;
        let store = self.0.replica.store.clone();
        let hash = blocking(move || store.hash(0)).await?;
        let hash = hash.map_err(|failure| self.0.read_failure(failure))?;
        Ok(Response::new(pb::HashResponse { header: self.0.header(hash.newest), hash: hash.hash }))
    }

    async fn hash_kv(
        &self,
        request: Request<pb::HashKvRequest>,
    ) -> Result<Response<pb::HashKvResponse>, Status> {
        self.0.may_read(&request, |_| vec![Need::cluster(Verb::Get, "hash")])?;
        let revision = request.into_inner().revision;
        let store = self.0.replica.store.clone();
        let hash = blocking(move || store.hash(revision)).await?;
        let hash = hash.map_err(|failure| self.0.read_failure(failure))?;
        Ok(Response::new(pb::HashKvResponse {
            header: self.0.header(hash.newest),
            hash: hash.hash,
            compact_revision: hash.compacted,
            hash_revision: hash.revision.wire(),
        }))
    }

    type SnapshotStream = Snapshots;

    async fn snapshot(&self, request: Request<pb::SnapshotRequest>) -> Result<Response<Snapshots>, Status> {
        self.0.may_read(&request, |_| permit::everything())?;
        let Ok(permit) = self.0.backups.clone().try_acquire_owned() else {
            return Err(Status::resource_exhausted(
                "etcdserver: this node makes as many backups as it may at a time; try again when one is complete",
            ));
        };
        let (chunks, output) = mpsc::channel(4);
        let (store, folder) = (self.0.replica.store.clone(), self.0.scratch.clone());
        let runtime = Handle::current();
        tokio::task::spawn_blocking(move || {
            let sent = backup::send(&store, &folder, |remaining, blob| {
                let response = pb::SnapshotResponse {
                    header: None,
                    remaining_bytes: remaining,
                    blob,
                    version: STORAGE_VERSION.to_owned(),
                };
                match runtime.block_on(timeout(RECEIVER_PATIENCE, chunks.send(Ok(response)))) {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(_)) | Err(_) => Err(backup::BackupError::ReceiverLeft),
                }
            });
            drop(permit);
            if let Err(error) = sent {
                tracing::warn!(%error, "a backup was not completed");
                let failed = Status::unavailable(format!("the backup failed: {error}"));
                // Whenever the receiver reads on, it must not take what it has for the whole.
                runtime.spawn(async move { chunks.send(Err(failed)).await });
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(output))))
    }

    async fn move_leader(
        &self,
        request: Request<pb::MoveLeaderRequest>,
    ) -> Result<Response<pb::MoveLeaderResponse>, Status> {
        let target = request.get_ref().target_id;
        let need = Need::cluster(Verb::Update, "move-leader").about(target);
        let pass = self.0.may_write(&request, |_| vec![need])?;
        let moved = self.transfer(NodeId(target)).await;
        pass.settle(moved, |()| Some(self.0.replica.store.revision())).await?;
        Ok(Response::new(pb::MoveLeaderResponse { header: None }))
    }

    async fn downgrade(
        &self,
        request: Request<pb::DowngradeRequest>,
    ) -> Result<Response<pb::DowngradeResponse>, Status> {
        self.0.may_read(&request, |_| vec![Need::cluster(Verb::Get, "status")])?;
        Err(Status::unimplemented(
            "a cluster is taken back to an earlier version by restoring a backup into it",
        ))
    }
}

impl MaintenanceService {
    async fn reclaim(&self) -> Result<(), Status> {
        let store = self.0.replica.store.clone();
        // A compaction that the client has just been told of may not have come here yet, or may still be at work: there
        // would be nothing to give back. Without a leader, what this node knows has to do.
        let _ = self.0.barrier().await;
        self.0.collected(store.compacted()).await?;
        let reclaimed = blocking(move || store.reclaim()).await?;
        reclaimed.map(drop).map_err(|failure| self.0.storage_failure(&failure))
    }

    async fn transfer(&self, target: NodeId) -> Result<(), Status> {
        if !self.0.replica.is_leader() {
            return Err(EtcdError::NotLeader.into());
        }
        self.0.replica.node.transfer_leader(target).await.map_err(|error| match error {
            MemberError::NotFound { .. } | MemberError::NotVoter { .. } => EtcdError::BadLeaderTransferee,
            MemberError::NotLeader { .. } => EtcdError::NotLeader,
            MemberError::Stopped => EtcdError::Stopped,
            _ => EtcdError::Timeout,
        })?;
        Ok(())
    }

    async fn list_alarms(&self, kind: Option<AlarmKind>) -> Result<Response<pb::AlarmResponse>, Status> {
        self.0.barrier().await?;
        let wanted = |alarm: &Alarm| kind.is_none_or(|kind| alarm.kind == kind);
        let alarms = self.0.replica.store.alarms().into_iter().filter(wanted).map(alarm_member).collect();
        Ok(Response::new(pb::AlarmResponse { header: self.0.current_header(), alarms }))
    }
}

fn alarm_member(alarm: Alarm) -> pb::AlarmMember {
    pb::AlarmMember { member_id: alarm.member.0, alarm: alarm.kind as i32 }
}
