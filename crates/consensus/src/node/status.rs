//! What the node knows of itself and the cluster, and the task that keeps it current.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use openraft::async_runtime::watch::WatchReceiver;
use openraft::error::Fatal;
use openraft::{Instant as _, ServerState};
use setpoint_types::NodeId;
use tokio::sync::watch;
use tokio::time::{Instant as TokioInstant, sleep};
use tokio_util::sync::CancellationToken;

use super::vigil::{Hearing, Leadership, Vigil};
use crate::host::{FatalError, Host};
use crate::peer::Peer;
use crate::raft::{Raft, TypeConfig};
use crate::state::Progress;
use crate::transport::Links;

/// How old the positions in a status may be.
const REFRESH_EVERY: Duration = Duration::from_millis(50);
/// A new leader takes commands as soon as a quorum has acknowledged it, which openraft does not announce.
const REFRESH_EVERY_UNCONFIRMED: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Leader,
    Candidate,
    Follower,
    /// Receives the log but does not vote, or is not a member (yet, or any more).
    Learner,
    Stopped,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub id: NodeId,
    pub role: Role,
    pub term: u64,
    /// Who leads, while it shows signs of life: none on a node that is cut off (`vigil`).
    pub leader: Option<NodeId>,
    pub last_index: Option<u64>,
    pub committed: Option<u64>,
    pub applied: Option<u64>,
    /// Up to where the state is durable, and up to where the log is cut.
    pub snapshot: Option<u64>,
    pub purged: Option<u64>,
    /// On the leader: when the last round began that a quorum answered. Its age says how sure the leader can be. A
    /// sole voter is always sure.
    pub quorum_acked: Option<Instant>,
    pub members: BTreeMap<NodeId, MemberStatus>,
    /// The log entry that made the members what they are. Moves with every change.
    pub membership_index: Option<u64>,
    /// The configurations each of which has to agree by majority: one, or two while the voters change.
    pub electorate: Vec<BTreeSet<NodeId>>,
    /// A change of the voters is half done.
    pub changing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    pub peer: Peer,
    pub voter: bool,
    /// On the leader: up to where this member has the log.
    pub matched: Option<u64>,
}

impl Status {
    pub(crate) fn unknown(id: NodeId) -> Self {
        Self {
            id,
            role: Role::Learner,
            term: 0,
            leader: None,
            last_index: None,
            committed: None,
            applied: None,
            snapshot: None,
            purged: None,
            quorum_acked: None,
            members: BTreeMap::new(),
            membership_index: None,
            electorate: Vec::new(),
            changing: false,
        }
    }

    pub fn voters(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.members.iter().filter(|(_, member)| member.voter).map(|(id, _)| *id)
    }

    pub fn learners(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.members.iter().filter(|(_, member)| !member.voter).map(|(id, _)| *id)
    }
}

/// Where requests for the leader go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    Unknown,
    Here { term: u64 },
    Elsewhere { leader: NodeId, term: u64 },
}

impl Route {
    pub fn elsewhere(self) -> Option<NodeId> {
        match self {
            Self::Elsewhere { leader, .. } => Some(leader),
            Self::Here { .. } | Self::Unknown => None,
        }
    }

    fn of(status: &Status) -> Self {
        match (status.role, status.leader) {
            (Role::Stopped, _) | (_, None) => Self::Unknown,
            (Role::Leader, Some(_)) => Self::Here { term: status.term },
            // A leader that was removed still counts as one until it steps down, but it takes nothing any more.
            (_, Some(leader)) if leader == status.id => Self::Unknown,
            (_, Some(leader)) => Self::Elsewhere { leader, term: status.term },
        }
    }
}

/// Reads the status of a running node. Its leader is whom openraft names, alive or not.
pub fn read(raft: &Raft, progress: &Progress) -> Status {
    // Cloned at once: the lock blocks openraft.
    let metrics = raft.metrics().borrow_watched().clone();
    let stored = &metrics.membership_config;
    let voters: Vec<u64> = stored.voter_ids().collect();
    let member = |(id, peer): (&u64, &Peer)| {
        let matched =
            metrics.replication.as_ref().and_then(|matched| matched.get(id)).and_then(Option::as_ref);
        let matched = matched.map(|log_id| log_id.index);
        (NodeId(*id), MemberStatus { peer: peer.clone(), voter: voters.contains(id), matched })
    };
    Status {
        id: NodeId(metrics.id),
        role: match (&metrics.running_state, metrics.state) {
            (Err(_), _) | (_, ServerState::Shutdown) => Role::Stopped,
            (_, ServerState::Leader) => Role::Leader,
            (_, ServerState::Candidate) => Role::Candidate,
            (_, ServerState::Follower) => Role::Follower,
            (_, ServerState::Learner) => Role::Learner,
        },
        term: metrics.current_term,
        leader: metrics.current_leader.map(NodeId),
        last_index: metrics.last_log_index,
        committed: metrics.local_committed.map(|log_id| log_id.index),
        // Newer than what openraft has been told of it.
        applied: progress.applied(),
        snapshot: metrics.snapshot.map(|log_id| log_id.index),
        purged: metrics.purged.map(|log_id| log_id.index),
        quorum_acked: if voters == [metrics.id] && metrics.state == ServerState::Leader {
            Some(Instant::now())
        } else {
            metrics.last_quorum_acked.and_then(|at| Instant::now().checked_sub(at.elapsed()))
        },
        members: stored.nodes().map(member).collect(),
        membership_index: stored.log_id().map(|log_id| log_id.index),
        electorate: stored
            .get_joint_config()
            .iter()
            .map(|voters| voters.iter().copied().map(NodeId).collect())
            .collect(),
        changing: stored.get_joint_config().len() > 1,
    }
}

/// Keeps route, status and links current, and reports when openraft stops by itself.
pub struct Observer {
    pub raft: Raft,
    pub progress: Arc<Progress>,
    pub links: Arc<Links>,
    pub host: Arc<dyn Host>,
    pub hearing: Arc<Hearing>,
    pub vigil: Vigil,
    pub route: watch::Sender<Route>,
    pub status: watch::Sender<Status>,
}

impl Observer {
    pub async fn run(mut self, shutdown: CancellationToken) {
        tokio::select! {
            // First: a node that is told to stop has not failed, although openraft ends then too.
            biased;
            () = shutdown.cancelled() => {}
            () = self.observe() => {
                let failure = self.failure();
                self.publish();
                self.host.fatal(failure);
            }
        }
        self.route.send_replace(Route::Unknown);
        self.status.send_modify(|status| {
            status.role = Role::Stopped;
            status.leader = None;
        });
    }

    /// Returns when openraft has stopped.
    async fn observe(&mut self) {
        let mut server = self.raft.server_metrics();
        loop {
            let pause = self.publish();
            tokio::select! {
                changed = server.changed() => if changed.is_err() { return },
                () = sleep(pause) => {}
            }
        }
    }

    /// Returns how long the published status is good for.
    fn publish(&mut self) -> Duration {
        let mut status = read(&self.raft, &self.progress);
        status.leader = status.leader.filter(|leader| self.is_alive(*leader, &status));
        for (node, member) in &status.members {
            if *node != status.id {
                self.links.learn(*node, &member.peer.address);
            }
        }
        self.links.retain(|node| status.members.contains_key(&node));
        let route = Route::of(&status);
        let unconfirmed = status.role == Role::Leader && status.quorum_acked.is_none();
        self.status.send_if_modified(|known| {
            let modified = *known != status;
            *known = status;
            modified
        });
        self.route.send_if_modified(|known| std::mem::replace(known, route) != route);
        if unconfirmed { REFRESH_EVERY_UNCONFIRMED } else { REFRESH_EVERY }
    }

    fn is_alive(&mut self, leader: NodeId, status: &Status) -> bool {
        let (leadership, now) = (Leadership { leader, term: status.term }, TokioInstant::now());
        let sign = match status.role {
            // Before a quorum has acknowledged it, openraft would refuse all writes, so it is no leader yet.
            Role::Leader => status.quorum_acked.and_then(|at| now.checked_sub(at.elapsed())),
            _ => self.hearing.last(leadership),
        };
        self.vigil.look(leadership, sign, now)
    }

    fn failure(&self) -> FatalError {
        let running = self.raft.metrics().borrow_watched().running_state.clone();
        FatalError(match running {
            Err(Fatal::<TypeConfig>::StorageError(error)) => error.to_string(),
            Err(Fatal::Stopped) => "it was stopped".to_owned(),
            Err(Fatal::Panicked) | Ok(()) => "it panicked".to_owned(),
        })
    }
}
