//! Initialising the cluster and changing its members.
//!
//! Only the leader changes members, one change at a time. A member comes in as a learner, which costs the cluster
//! nothing, and votes once it has caught up. It never comes back under its old id (`membership`).

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use openraft::ChangeMembers;
use openraft::error::{ChangeMembershipError, ClientWriteError, InitializeError, RaftError};
use setpoint_types::NodeId;
use tokio::time::{Instant, sleep, timeout};

use super::status::{self, MemberStatus, Role, Status};
use super::{Node, Route};
use crate::error::{CallError, MemberError, ReadError};
use crate::forward::{Answer, Question};
use crate::peer::Peer;
use crate::raft::TypeConfig;

/// A learner may vote when it lags by no more than a tenth of the log, within these bounds.
const LAG_MIN: u64 = 16;
const LAG_MAX: u64 = 5_000;
const RETRY_EVERY: Duration = Duration::from_millis(20);

type Changes = ChangeMembers<u64, Peer>;
type WriteError = RaftError<TypeConfig, ClientWriteError<TypeConfig>>;

impl Node {
    /// Makes a new cluster of `members`, all of them voters. On one of them, once; the others learn it from that one.
    pub async fn initialize(&self, members: BTreeMap<NodeId, Peer>) -> Result<(), MemberError> {
        if members.contains_key(&NodeId(0)) || !members.contains_key(&self.id()) {
            return Err(MemberError::BadMembers);
        }
        let members: BTreeMap<u64, Peer> = members.into_iter().map(|(id, peer)| (id.0, peer)).collect();
        self.inner.raft.initialize(members).await.map_err(|error| match error {
            RaftError::APIError(InitializeError::NotAllowed(_)) => MemberError::AlreadyInitialized,
            RaftError::APIError(InitializeError::NotInMembers(_)) => MemberError::BadMembers,
            RaftError::Fatal(_) => MemberError::Stopped,
        })
    }

    /// The lowest id that may be given to a new member. As of what is applied here.
    pub fn next_id(&self) -> NodeId {
        NodeId(self.inner.progress.record().highest().saturating_add(1))
    }

    /// Adds a member that does not vote. `id` has to be higher than every id before it.
    pub async fn add_learner(&self, id: NodeId, peer: Peer) -> Result<(), MemberError> {
        let _changing = self.inner.changing.lock().await;
        self.settled().await?;
        let highest = self.inner.progress.record().highest();
        if id.0 <= highest {
            return Err(MemberError::IdUsed { id, highest: NodeId(highest) });
        }
        self.change(ChangeMembers::AddNodes(BTreeMap::from([(id.0, peer)])), true).await
    }

    /// Lets a learner vote.
    pub async fn promote(&self, id: NodeId) -> Result<(), MemberError> {
        let _changing = self.inner.changing.lock().await;
        let status = self.settled().await?;
        let member = find(&status, id)?;
        if member.voter {
            return Err(MemberError::NotLearner { id });
        }
        let last = status.last_index.unwrap_or(0);
        let lag = lag(&status, member);
        // However short the log is: one that was never heard of may not even run.
        if member.matched.is_none() || lag > (last / 10).clamp(LAG_MIN, LAG_MAX) {
            return Err(MemberError::LearnerNotReady { id, lag });
        }
        self.change(ChangeMembers::AddVoterIds(BTreeSet::from([id.0])), true).await
    }

    /// Removes a member for good. A leader that is to remove itself hands the leadership over first and leaves the
    /// rest to its successor.
    pub async fn remove(&self, id: NodeId) -> Result<(), MemberError> {
        let changing = self.inner.changing.lock().await;
        let status = self.settled().await?;
        let voter = find(&status, id)?.voter;
        if voter && status.voters().count() == 1 {
            return Err(MemberError::LastVoter { id });
        }
        if id != self.id() {
            let ids = BTreeSet::from([id.0]);
            let change =
                if voter { ChangeMembers::RemoveVoters(ids) } else { ChangeMembers::RemoveNodes(ids) };
            return self.change(change, false).await.map_err(|error| match error {
                // A voter goes in two steps, and the first may have been taken.
                MemberError::NotLeader { .. } if voter => MemberError::Unknown,
                other => other,
            });
        }
        self.hand_over(&status).await?;
        drop(changing);
        self.be_removed().await
    }

    /// Asks the successor to remove this node. One that was just elected may need a moment before it can, and its
    /// answer may be lost; being gone is as good.
    async fn be_removed(&self) -> Result<(), MemberError> {
        let deadline = Instant::now() + self.inner.config.timing.transfer;
        let mut asked = false;
        loop {
            match self.ask_leader(Question::RemoveMember(self.id())).await {
                Ok(Answer::MemberRemoved) => return Ok(()),
                // Certainly not considered.
                Err(CallError::NoLeader | CallError::Overloaded) => {}
                Err(CallError::ShuttingDown) => return Err(MemberError::Stopped),
                Ok(_) | Err(_) => asked = true,
            }
            if asked && self.inner.inquiry.ask().await {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(if asked { MemberError::Unknown } else { self.not_leading() });
            }
            sleep(RETRY_EVERY).await;
        }
    }

    /// Gives a member another name or address.
    pub async fn update_peer(&self, id: NodeId, peer: Peer) -> Result<(), MemberError> {
        let _changing = self.inner.changing.lock().await;
        find(&self.settled().await?, id)?;
        self.change(ChangeMembers::SetNodes(BTreeMap::from([(id.0, peer)])), true).await
    }

    /// Right now, not as of the last refresh. Only whether the leader is alive takes time to tell.
    pub fn current_status(&self) -> Status {
        let mut status = status::read(&self.inner.raft, &self.inner.progress);
        let known = self.inner.status.borrow();
        status.leader = status.leader.filter(|_| known.term != status.term || known.leader.is_some());
        status
    }

    pub(super) fn leading(&self) -> Result<Status, MemberError> {
        let status = self.current_status();
        match status.role {
            Role::Leader => Ok(status),
            Role::Stopped => Err(MemberError::Stopped),
            Role::Candidate | Role::Follower | Role::Learner => Err(self.not_leading()),
        }
    }

    /// As `leading`, once everything that earlier leaders committed is applied here: only then do we know the members
    /// and the ids that are used up, and openraft takes a change only on top of a committed one.
    async fn settled(&self) -> Result<Status, MemberError> {
        self.leading()?;
        self.read_barrier().await.map_err(|error| self.barrier_failed(error))?;
        self.leading()
    }

    fn not_leading(&self) -> MemberError {
        let route: Route = *self.inner.route.borrow();
        MemberError::NotLeader { leader: route.elsewhere() }
    }

    fn barrier_failed(&self, error: ReadError) -> MemberError {
        match error {
            ReadError::NoLeader => self.not_leading(),
            ReadError::NoQuorum | ReadError::TimedOut | ReadError::Overloaded => MemberError::NoQuorum,
            ReadError::ShuttingDown => MemberError::Stopped,
        }
    }

    async fn change(&self, changes: Changes, retain: bool) -> Result<(), MemberError> {
        let changed = self.patiently(self.inner.raft.change_membership(changes, retain)).await?;
        changed.map(drop).map_err(|error| self.change_failed(error))
    }

    /// A change waits for a quorum, which may never come.
    async fn patiently<T>(&self, change: impl Future<Output = T>) -> Result<T, MemberError> {
        timeout(self.inner.config.timing.call, change).await.map_err(|_| MemberError::Unknown)
    }

    fn change_failed(&self, error: WriteError) -> MemberError {
        match error {
            RaftError::Fatal(_) => MemberError::Stopped,
            RaftError::APIError(ClientWriteError::ForwardToLeader(_)) => self.not_leading(),
            RaftError::APIError(ClientWriteError::LogEntryDiscarded(_)) => MemberError::Unknown,
            RaftError::APIError(ClientWriteError::ChangeMembershipError(error)) => match error {
                ChangeMembershipError::LearnerNotFound(missing) => {
                    MemberError::NotFound { id: NodeId(missing.node_id) }
                }
                _ => MemberError::InProgress,
            },
            RaftError::APIError(ClientWriteError::PreconditionFailed(_)) => MemberError::InProgress,
        }
    }
}

fn find(status: &Status, id: NodeId) -> Result<&MemberStatus, MemberError> {
    status.members.get(&id).ok_or(MemberError::NotFound { id })
}

/// How many entries a member lacks. One that was never heard of lacks them all.
pub(super) fn lag(status: &Status, member: &MemberStatus) -> u64 {
    let entries = |index: Option<u64>| index.map_or(0, |index| index.saturating_add(1));
    entries(status.last_index).saturating_sub(entries(member.matched))
}
