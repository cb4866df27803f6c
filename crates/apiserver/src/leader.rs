//! What only the leader can answer: lease time and changes of the membership.
//!
//! Any node may be asked; it asks the leader through consensus, and the leader's desk answers. Refusals travel by name so
//! that the asking node can say exactly what etcd would.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use prost::Message;
use setpoint_api::setpoint::peer::v1::{
    AddMember, LeaderReply, LeaderRequest, LeaseLifetimeIs, LeaseTime, LeaseTimesAre, LeasesRenewed,
    MemberChanged, Refusal, RemoveMember, leader_reply, leader_request,
};
use setpoint_consensus::{
    Admission, CallError, LeaderService, Mandate, Member, MemberError, Newcomer, Node, Peer, ServiceRefusal,
    Standing, Status,
};
use setpoint_store::command::Command;
use setpoint_types::{LeaseId, NodeId};
use tokio::time::{Instant, sleep};

use crate::etcd::error::EtcdError;
use crate::lease::{self, Lessor};
use crate::replica::Replica;

use leader_reply::Reply;
use leader_request::Request;

/// No reply of the kind that was asked for.
struct Failure {
    error: EtcdError,
    /// The leader may have done what was asked.
    perhaps_done: bool,
}

/// Asks whoever leads.
pub async fn ask(node: &Node, request: Request) -> Result<Reply, EtcdError> {
    try_ask(node, request).await.map_err(|failure| failure.error)
}

/// As `ask`, for a promise that only holds if it is made in time: that a lease lives on.
///
/// A leader that was stopped, by a signal or a busy machine, right after it had proven that it leads, answers when it goes
/// on, and may have had a successor meanwhile. That one gives every lease its full time and `grace` on top, from its election
/// on, which was after the proof and so after we asked (invariant S11). A promise that came within `grace` therefore holds
/// whoever leads by now; a later one is not passed on. Not noticed is a machine whose monotonic clock stopped with it.
pub async fn ask_within(grace: Duration, node: &Node, request: Request) -> Result<Reply, EtcdError> {
    within(grace, ask(node, request)).await
}

async fn within(
    grace: Duration,
    answer: impl Future<Output = Result<Reply, EtcdError>>,
) -> Result<Reply, EtcdError> {
    let asked = Instant::now();
    let answer = answer.await?;
    if asked.elapsed() <= grace { Ok(answer) } else { Err(EtcdError::NoLeader) }
}

async fn try_ask(node: &Node, request: Request) -> Result<Reply, Failure> {
    let request = LeaderRequest { request: Some(request) };
    let reply = node.call_leader(request.encode_to_vec().into()).await.map_err(|error| {
        let (error, perhaps_done) = match error {
            CallError::NoLeader => (EtcdError::NoLeader, false),
            CallError::Broken => (EtcdError::NoLeader, true),
            CallError::Overloaded => (EtcdError::TooManyRequests, false),
            CallError::ShuttingDown => (EtcdError::Stopped, true),
            CallError::NoQuorum | CallError::TimedOut => (EtcdError::Timeout, true),
            CallError::Refused(_) => (EtcdError::Timeout, false),
        };
        Failure { error, perhaps_done }
    })?;
    decoded(reply).map_err(|error| Failure { error, perhaps_done: error == EtcdError::Timeout })
}

fn decoded(reply: Bytes) -> Result<Reply, EtcdError> {
    match LeaderReply::decode(reply).ok().and_then(|reply| reply.reply) {
        Some(Reply::Refusal(refusal)) => Err(refusal_named(&refusal.reason)),
        Some(reply) => Ok(reply),
        None => Err(EtcdError::Timeout),
    }
}

/// Between two attempts at a removal.
const REMOVE_AGAIN: Duration = Duration::from_millis(50);

/// Has a member removed. A leader that is to go hands its office over in the middle of it, and the connection this
/// request came by may break: so it is made again, of whoever leads by then. If the member is gone by then, it was this
/// request that may have removed it.
pub async fn remove_member(node: &Node, id: NodeId, deadline: Instant) -> Result<(), EtcdError> {
    let mut perhaps_done = false;
    loop {
        let failure = match try_ask(node, Request::RemoveMember(RemoveMember { id: id.0 })).await {
            Ok(_) => return Ok(()),
            Err(failure) => failure,
        };
        match failure.error {
            EtcdError::MemberNotFound if perhaps_done => return Ok(()),
            _ if perhaps_done && id == node.id() && node.is_removed() => return Ok(()),
            EtcdError::NoLeader | EtcdError::Timeout | EtcdError::Unhealthy if Instant::now() < deadline => {
                perhaps_done |= failure.perhaps_done;
                sleep(REMOVE_AGAIN).await;
            }
            error => return Err(error),
        }
    }
}

/// The refusals a leader may give, by the names they travel under.
const REFUSALS: [(&str, EtcdError); 9] = [
    ("member-not-found", EtcdError::MemberNotFound),
    ("peer-url-exists", EtcdError::PeerUrlExists),
    ("not-learner", EtcdError::NotLearner),
    ("learner-not-ready", EtcdError::LearnerNotReady),
    ("too-many-learners", EtcdError::TooManyLearners),
    ("not-enough-started", EtcdError::NotEnoughStarted),
    ("unhealthy", EtcdError::Unhealthy),
    ("no-leader", EtcdError::NoLeader),
    ("starting", EtcdError::Starting),
];

fn refusal_named(name: &str) -> EtcdError {
    REFUSALS.iter().find(|(known, _)| *known == name).map_or(EtcdError::Timeout, |(_, error)| *error)
}

fn refusal(error: EtcdError) -> Reply {
    let name = REFUSALS.iter().find(|(_, known)| *known == error).map_or("timeout", |(name, _)| name);
    Reply::Refusal(Refusal { reason: name.to_owned() })
}

/// Where the leader answers. Consensus needs it before the parts that answer exist; they move in once they do.
#[derive(Default)]
pub struct LeaderDesk {
    staff: OnceLock<Staff>,
}

#[derive(Clone)]
struct Staff {
    replica: Replica,
    lessor: Arc<Lessor>,
}

impl LeaderDesk {
    pub fn open(&self, replica: Replica, lessor: Arc<Lessor>) {
        // A second opening would be by mistake; the first one serves.
        let _ = self.staff.set(Staff { replica, lessor });
    }

    fn staff(&self) -> Result<Staff, ServiceRefusal> {
        self.staff
            .get()
            .cloned()
            .ok_or_else(|| ServiceRefusal::NotNow("the node is still starting; try again".to_owned()))
    }

    fn answer(&self, request: Bytes, mandate: Mandate) -> BoxFuture<'static, Result<Bytes, ServiceRefusal>> {
        let staff = self.staff();
        Box::pin(async move {
            let Ok(staff) = staff else { return Ok(encoded(refusal(EtcdError::Starting))) };
            let request = LeaderRequest::decode(request).ok().and_then(|request| request.request);
            let newer = || ServiceRefusal::Final("the request is of a newer version".to_owned());
            let request = request.ok_or_else(newer)?;
            Ok(encoded(staff.answer(request, mandate).await.unwrap_or_else(refusal)))
        })
    }
}

fn encoded(reply: Reply) -> Bytes {
    LeaderReply { reply: Some(reply) }.encode_to_vec().into()
}

impl LeaderService for LeaderDesk {
    fn call(
        &self,
        _node: &Node,
        request: Bytes,
        mandate: Mandate,
    ) -> BoxFuture<'static, Result<Bytes, ServiceRefusal>> {
        self.answer(request, mandate)
    }

    fn join(
        &self,
        _node: &Node,
        newcomer: Newcomer,
    ) -> BoxFuture<'static, Result<Admission, ServiceRefusal>> {
        let staff = self.staff();
        Box::pin(async move { staff?.admit(newcomer).await })
    }
}

impl Staff {
    async fn answer(&self, request: Request, mandate: Mandate) -> Result<Reply, EtcdError> {
        match request {
            Request::RenewLeases(renew) => {
                // A deposed leader that does not know it yet must not promise a lease more time.
                self.replica.node.settle(mandate).await.map_err(|_| EtcdError::NoLeader)?;
                let ids: Vec<_> = renew.ids.into_iter().map(LeaseId).collect();
                let observed = renew.observed.into_iter();
                let observed = observed.map(|it| (it.place as usize, it.revisions.into_iter().collect()));
                let ttls = self.lessor.renew(&ids, observed.collect()).ok_or(EtcdError::NoLeader)?;
                Ok(Reply::LeasesRenewed(LeasesRenewed { ttls }))
            }
            Request::LeaseLifetime(lease) => {
                self.replica.node.settle(mandate).await.map_err(|_| EtcdError::NoLeader)?;
                let remaining = self.lessor.remaining(LeaseId(lease.id)).ok_or(EtcdError::NoLeader)?;
                Ok(Reply::LeaseLifetimeIs(LeaseLifetimeIs { remaining }))
            }
            Request::LeaseTimes(asked) => {
                self.replica.node.settle(mandate).await.map_err(|_| EtcdError::NoLeader)?;
                let ids: Vec<_> = asked.ids.into_iter().map(LeaseId).collect();
                let times = self.lessor.times(&ids).ok_or(EtcdError::NoLeader)?;
                let times = times.into_iter().map(lease_time).collect();
                Ok(Reply::LeaseTimesAre(LeaseTimesAre { times }))
            }
            Request::AddMember(add) => self.add(add).await.map(changed),
            Request::RemoveMember(remove) => self.remove(NodeId(remove.id)).await.map(changed),
            Request::UpdateMember(update) => {
                self.update(NodeId(update.id), update.address).await.map(changed)
            }
            Request::PromoteMember(promote) => {
                let id = NodeId(promote.id);
                self.replica.node.promote(id).await.map_err(member_error)?;
                Ok(changed(id))
            }
        }
    }

    async fn add(&self, add: AddMember) -> Result<NodeId, EtcdError> {
        let status = self.replica.node.current_status();
        if has_address(&status, &add.address, None) {
            return Err(EtcdError::PeerUrlExists);
        }
        // One at a time: each learner costs the leader a full copy of the data.
        if status.learners().next().is_some() {
            return Err(EtcdError::TooManyLearners);
        }
        let id = self.replica.node.next_id();
        self.replica
            .node
            .add_learner(id, Peer { name: add.name, address: add.address })
            .await
            .map_err(member_error)?;
        setpoint_failpoint::hit("member.after-add");
        if !add.learner {
            self.expect_voter(id).await?;
        }
        Ok(id)
    }

    async fn expect_voter(&self, member: NodeId) -> Result<(), EtcdError> {
        let expected = self.replica.propose(Command::ExpectVoter { member }).await;
        expected.map(drop).map_err(|_| EtcdError::Timeout)
    }

    async fn remove(&self, id: NodeId) -> Result<NodeId, EtcdError> {
        self.replica.node.remove(id).await.map_err(member_error)?;
        // What the state knows of it goes too; a leader that removed itself leaves that to its successor (housekeeping),
        // which also does it if we fail here.
        if id != self.replica.identity.member
            && let Err(error) = self.replica.propose(Command::RemoveMember { member: id }).await
        {
            tracing::debug!(%error, member = %id, "what a removed member had published is not deleted yet");
        }
        Ok(id)
    }

    async fn update(&self, id: NodeId, address: String) -> Result<NodeId, EtcdError> {
        let status = self.replica.node.current_status();
        let member = status.members.get(&id).ok_or(EtcdError::MemberNotFound)?;
        if has_address(&status, &address, Some(id)) {
            return Err(EtcdError::PeerUrlExists);
        }
        let peer = Peer { name: member.peer.name.clone(), address };
        self.replica.node.update_peer(id, peer).await.map_err(member_error)?;
        Ok(id)
    }

    /// Takes in a new machine: under the id that was made for its address, or under a fresh one.
    async fn admit(&self, newcomer: Newcomer) -> Result<Admission, ServiceRefusal> {
        // No leader, no quorum, somebody faster: all that passes.
        let refused = |error: EtcdError| ServiceRefusal::NotNow(error.text().to_owned());
        let status = self.replica.node.current_status();
        self.check_namesakes(&status, &newcomer)?;
        let announced = status.members.iter().find(|(_, member)| member.peer.address == newcomer.address);
        let node = match announced {
            Some((id, member)) if member.voter || self.replica.node.standing(*id) == Standing::TookPart => {
                return Err(ServiceRefusal::Final(format!(
                    "{} is the address of member {id}, which has started before; start it with its own data, or, if that \
                     is lost, remove the member first (etcdctl member remove {id})",
                    newcomer.address
                )));
            }
            Some((id, member)) => {
                let (id, peer) = (*id, member.peer.clone());
                let joined = !peer.name.is_empty();
                // Changes nothing, but is only done once the cluster has agreed on the member itself.
                self.replica.node.update_peer(id, peer).await.map_err(member_error).map_err(refused)?;
                // Whoever was announced has no name here. One that has it asked before and is to vote, but whoever led
                // then may not have got as far as saying so.
                if joined {
                    self.expect_voter(id).await.map_err(refused)?;
                }
                id
            }
            None => {
                let add = AddMember { name: newcomer.name, address: newcomer.address, learner: false };
                self.add(add).await.map_err(|error| match error {
                    EtcdError::TooManyLearners => ServiceRefusal::NotNow(in_the_way(&status)),
                    error => refused(error),
                })?
            }
        };
        let members = self.replica.status().members.into_iter();
        let members =
            members.map(|(node, member)| Member { node, peer: member.peer, voter: member.voter }).collect();
        Ok(Admission { cluster: self.replica.identity.cluster, node, members })
    }

    /// Names are how people tell members apart. Only one that asks again, from the same address, may have one that is
    /// taken.
    fn check_namesakes(&self, status: &Status, newcomer: &Newcomer) -> Result<(), ServiceRefusal> {
        let published = self.replica.store.members();
        let namesake = status.members.iter().find(|(id, member)| {
            let said = published.get(id).is_some_and(|known| known.name == newcomer.name);
            member.peer.address != newcomer.address && (said || member.peer.name == newcomer.name)
        });
        let Some((id, member)) = namesake else { return Ok(()) };
        Err(ServiceRefusal::Final(format!(
            "member {id} at {} has the name {:?}; give this node another (--name), or remove that member first (etcdctl \
             member remove {id})",
            member.peer.address, newcomer.name
        )))
    }
}

/// Whether somebody else than `except` is to be reached there.
fn has_address(status: &Status, address: &str, except: Option<NodeId>) -> bool {
    status.members.iter().any(|(id, member)| Some(*id) != except && member.peer.address == address)
}

/// Why no learner is taken in, and what can be done about it.
fn in_the_way(status: &Status) -> String {
    let text = EtcdError::TooManyLearners.text();
    let learner = status.members.iter().find(|(_, member)| !member.voter);
    match learner {
        Some((id, member)) => format!(
            "{text}: member {id} at {} does not vote yet; wait until it does, promote it (etcdctl member promote {id}), or \
             remove it (etcdctl member remove {id})",
            member.peer.address
        ),
        None => text.to_owned(),
    }
}

fn lease_time(time: lease::LeaseTime) -> LeaseTime {
    let millis = |left: Duration| i64::try_from(left.as_millis()).unwrap_or(i64::MAX);
    let remaining_ms = time.remaining.map_or(-1, millis);
    LeaseTime { remaining_ms, observed: time.observed.into_iter().collect() }
}

fn changed(id: NodeId) -> Reply {
    Reply::MemberChanged(MemberChanged { id: id.0 })
}

fn member_error(error: MemberError) -> EtcdError {
    match error {
        MemberError::NotFound { .. } => EtcdError::MemberNotFound,
        MemberError::NotLearner { .. } => EtcdError::NotLearner,
        MemberError::LearnerNotReady { .. } => EtcdError::LearnerNotReady,
        MemberError::LastVoter { .. } => EtcdError::NotEnoughStarted,
        MemberError::NotLeader { .. } => EtcdError::NoLeader,
        MemberError::NoQuorum | MemberError::InProgress => EtcdError::Unhealthy,
        error => {
            tracing::warn!(%error, "a change of the membership failed");
            EtcdError::Timeout
        }
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::setpoint::peer::v1::RenewLeases;
    use tonic::Code;

    use super::*;

    #[tokio::test]
    async fn a_leader_that_is_still_starting_says_so() {
        let request = LeaderRequest {
            request: Some(Request::RenewLeases(RenewLeases { ids: vec![1], observed: Vec::new() })),
        };
        let reply = LeaderDesk::default()
            .answer(request.encode_to_vec().into(), Mandate::Unconfirmed)
            .await
            .expect("an answer");
        let error = decoded(reply).expect_err("it cannot answer yet");
        assert_eq!((error, error.code()), (EtcdError::Starting, Code::Unavailable));
        assert!(error.text().contains("still starting"), "{}", error.text());
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_counts_only_within_the_grace() {
        let grace = Duration::from_secs(2);
        let renewed = || Reply::LeasesRenewed(LeasesRenewed { ttls: vec![5] });
        for (stopped, said) in [
            (Duration::ZERO, Ok(renewed())),
            (grace, Ok(renewed())),
            (grace + Duration::from_millis(1), Err(EtcdError::NoLeader)),
            (grace * 100, Err(EtcdError::NoLeader)),
        ] {
            // Between the proof and the answer nothing is waited for: the leader's process stands still.
            let frozen = async {
                tokio::time::advance(stopped).await;
                Ok(renewed())
            };
            assert_eq!(within(grace, frozen).await, said, "stopped for {stopped:?}");
        }
        assert_eq!(within(grace, async { Err(EtcdError::Stopped) }).await, Err(EtcdError::Stopped));
    }

    #[test]
    fn every_refusal_survives_the_journey() {
        for (_, error) in REFUSALS {
            assert_eq!(decoded(encoded(refusal(error))), Err(error));
        }
    }
}
