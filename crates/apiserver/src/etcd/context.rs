//! What every etcd service shares: the replica, the limits, headers, and how a request waits for the cluster.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::etcdserverpb as pb;
use setpoint_consensus::ReadError;
use setpoint_store::command::Command;
use setpoint_store::{EngineFailure, ReadFailure, Response};
use setpoint_types::{LeaseId, Revision};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::metadata::MetadataMap;

use super::error::EtcdError;
use crate::access::Gate;
use crate::collector::Collector;
use crate::lease::{Lessor, Renewals};
use crate::load::Load;
use crate::metrics::Metrics;
use crate::quota::Quota;
use crate::replica::{Halt, ProposeError, Replica};

#[derive(Clone, Debug)]
pub struct Limits {
    /// The largest request, as it is written to the log.
    pub request_bytes: usize,
    /// Operations in one transaction.
    pub txn_ops: usize,
    pub watch_progress_interval: Duration,
    pub watches_per_stream: usize,
    /// How long a leader may be silent before another is elected.
    pub election_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_bytes: 3 << 19,
            txn_ops: 128,
            watch_progress_interval: Duration::from_secs(600),
            watches_per_stream: 100_000,
            election_timeout: Duration::from_secs(1),
        }
    }
}

#[derive(Clone)]
pub struct Context {
    pub gate: Gate,
    pub replica: Replica,
    pub lessor: Arc<Lessor>,
    pub renewals: Renewals,
    pub collector: Arc<Collector>,
    pub quota: Arc<Quota>,
    pub metrics: Arc<Metrics>,
    pub limits: Limits,
    pub load: Load,
    /// `http` or `https`, as peers are reached.
    pub peer_scheme: &'static str,
    /// Where a backup in the making may put its files.
    pub scratch: PathBuf,
    /// How many more backups may be made at a time; each takes a copy of the state's newest files and a thread.
    pub backups: Arc<Semaphore>,
    /// Stops the node when its storage fails.
    pub halt: Halt,
    /// Cancelled when the node begins to stop: nothing that may take long goes on.
    pub stopping: CancellationToken,
}

impl Context {
    pub fn header(&self, revision: Revision) -> Option<pb::ResponseHeader> {
        Some(pb::ResponseHeader {
            cluster_id: self.replica.identity.cluster.0,
            member_id: self.replica.identity.member.0,
            revision: revision.wire(),
            raft_term: self.replica.node.status().borrow().term,
        })
    }

    /// A header with the revision as it is now.
    pub fn current_header(&self) -> Option<pb::ResponseHeader> {
        self.header(self.replica.store.revision())
    }

    /// Refuses a write that is too large, or that a full disk has no room for.
    pub async fn admit(&self, size: usize, grows: bool) -> Result<(), Status> {
        if size > self.limits.request_bytes {
            return Err(EtcdError::RequestTooLarge.into());
        }
        if grows { self.quota.admit(&self.replica, size).await.map_err(Status::from) } else { Ok(()) }
    }

    /// A positive number no lease has. Chosen before it is proposed: replicas must not choose.
    pub fn fresh_lease(&self) -> LeaseId {
        loop {
            #[expect(clippy::disallowed_methods, reason = "the one place where lease ids come from")]
            let id = LeaseId(rand::random_range(1..=i64::MAX));
            if self.replica.store.lease(id).is_none() {
                return id;
            }
        }
    }

    pub async fn propose(&self, command: Command) -> Result<Response, Status> {
        self.replica.propose(command).await.map_err(propose_error)
    }

    /// Waits until a local read is linearizable.
    pub async fn barrier(&self) -> Result<(), Status> {
        self.replica.read_barrier().await.map_err(read_error)
    }

    /// Waits until this node has deleted what a compaction left behind.
    pub async fn collected(&self, revision: i64) -> Result<(), Status> {
        let mut collected = self.collector.progress();
        let done = |at: &Revision| at.wire() >= revision;
        let reached = self.stopping.run_until_cancelled(collected.wait_for(done)).await;
        match reached {
            Some(Ok(_)) => Ok(()),
            Some(Err(_)) | None => Err(EtcdError::Stopped.into()),
        }
    }

    /// The answer to a read that failed for the client's reasons, or because this node's storage did.
    pub fn read_failure(&self, failure: ReadFailure) -> Status {
        match failure {
            ReadFailure::Rejected(rejection) => EtcdError::from(rejection).into(),
            ReadFailure::Overtaken => EtcdError::Compacted.into(),
            ReadFailure::Engine(failure) => self.storage_failure(&failure),
        }
    }

    /// Storage that cannot be read stops the node; the client may try another one.
    pub fn storage_failure(&self, failure: &EngineFailure) -> Status {
        self.halt.because(failure);
        Status::unavailable("etcdserver: this node cannot read its storage; try another endpoint")
    }
}

pub fn propose_error(error: ProposeError) -> Status {
    let error = match error {
        ProposeError::Rejected(rejection) => rejection.into(),
        ProposeError::TooLarge => EtcdError::RequestTooLarge,
        ProposeError::Overloaded => EtcdError::TooManyRequests,
        ProposeError::NoLeader => EtcdError::NoLeader,
        ProposeError::TimedOut { leader_lost: true } => EtcdError::TimeoutLeaderFail,
        ProposeError::TimedOut { leader_lost: false } => EtcdError::Timeout,
        ProposeError::Stopped => EtcdError::Stopped,
    };
    error.into()
}

fn read_error(error: ReadError) -> Status {
    let error = match error {
        ReadError::NoLeader => EtcdError::NoLeader,
        ReadError::NoQuorum => EtcdError::Timeout,
        ReadError::Overloaded => EtcdError::TooManyRequests,
        ReadError::TimedOut => EtcdError::TimeoutApplied,
        ReadError::ShuttingDown => EtcdError::Stopped,
    };
    error.into()
}

/// True if the client asked not to be served by a node that knows no leader.
pub fn leader_required(metadata: &MetadataMap) -> bool {
    metadata.get("hasleader").is_some_and(|value| value == "true")
}

/// The revision of an answer, for the audit log.
pub fn revision(header: Option<&pb::ResponseHeader>) -> Option<Revision> {
    header.map(|header| Revision::new(u64::try_from(header.revision).unwrap_or(0)))
}

/// A verdict of another kind than the command asked for: a bug, reported as one rather than guessed around.
pub fn mismatched(response: &Response) -> Status {
    tracing::error!(?response, "a verdict does not fit its command");
    Status::internal("the verdict does not fit the command; please report this")
}
