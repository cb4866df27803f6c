//! Questions and answers, and their form on the wire.

use bytes::Bytes;
use setpoint_api::setpoint::peer::v1 as proto;
use setpoint_api::setpoint::peer::v1::answer::Outcome;
use setpoint_api::setpoint::peer::v1::failure::Kind;
use setpoint_api::setpoint::peer::v1::refused::Reason;
use setpoint_types::{ClusterId, NodeId};

use crate::error::CallError;
use crate::host::{Admission, Member, Newcomer, Refusal, ServiceRefusal};
use crate::peer::Peer;

/// What only the leader can answer.
#[derive(Clone, Debug)]
pub enum Question {
    ReadIndex,
    Service(Bytes),
    RemoveMember(NodeId),
    Join(Newcomer),
}

#[derive(Clone, Debug)]
pub enum Answer {
    ReadIndex(u64),
    Service(Bytes),
    MemberRemoved,
    Join(Admission),
}

pub fn call(id: u64, question: Question, pledged: u64) -> proto::ForwardRequest {
    use proto::call::Question as Wire;
    let question = match question {
        Question::ReadIndex => Wire::ReadIndex(proto::ReadIndex {}),
        Question::Service(request) => Wire::Service(request),
        Question::RemoveMember(node) => Wire::RemoveFormerLeader(proto::RemoveFormerLeader { node: node.0 }),
        Question::Join(Newcomer { name, address }) => Wire::Join(proto::JoinRequest { name, address }),
    };
    let call = proto::Call { id, question: Some(question), pledged: Some(pledged) };
    proto::ForwardRequest { body: Some(proto::forward_request::Body::Call(call)) }
}

pub fn pledge(round: u64, term: u64) -> proto::ForwardRequest {
    proto::ForwardRequest { body: Some(proto::forward_request::Body::Pledge(proto::Pledge { round, term })) }
}

pub fn confirm(round: u64) -> proto::ForwardReply {
    proto::ForwardReply { body: Some(proto::forward_reply::Body::Confirm(proto::Confirm { round })) }
}

/// None if the question is one that only a newer version knows.
pub fn read_question(question: Option<proto::call::Question>) -> Option<Question> {
    use proto::call::Question as Wire;
    Some(match question? {
        Wire::ReadIndex(proto::ReadIndex {}) => Question::ReadIndex,
        Wire::Service(request) => Question::Service(request),
        Wire::RemoveFormerLeader(proto::RemoveFormerLeader { node }) => Question::RemoveMember(NodeId(node)),
        Wire::Join(request) => Question::Join(newcomer(request)),
    })
}

pub fn answer(id: u64, answer: Result<Answer, CallError>) -> proto::ForwardReply {
    let outcome = match answer {
        Ok(Answer::ReadIndex(index)) => Outcome::ReadIndex(index),
        Ok(Answer::Service(reply)) => Outcome::Service(reply),
        Ok(Answer::MemberRemoved) => Outcome::FormerLeaderRemoved(proto::FormerLeaderRemoved {}),
        Ok(Answer::Join(admitted)) => Outcome::Join(admission_reply(admitted)),
        Err(error) => Outcome::Failure(failure(&error)),
    };
    let answer = proto::Answer { id, outcome: Some(outcome) };
    proto::ForwardReply { body: Some(proto::forward_reply::Body::Answer(answer)) }
}

pub fn read_answer(outcome: Option<Outcome>) -> Result<Answer, CallError> {
    match outcome {
        Some(Outcome::ReadIndex(index)) => Ok(Answer::ReadIndex(index)),
        Some(Outcome::Service(reply)) => Ok(Answer::Service(reply)),
        Some(Outcome::FormerLeaderRemoved(proto::FormerLeaderRemoved {})) => Ok(Answer::MemberRemoved),
        Some(Outcome::Join(reply)) => Ok(Answer::Join(admission(reply))),
        Some(Outcome::Failure(failure)) => Err(read_failure(failure)),
        None => Err(CallError::Broken),
    }
}

fn failure(error: &CallError) -> proto::Failure {
    let kind = match error {
        CallError::NoLeader => Kind::NotLeader,
        CallError::NoQuorum => Kind::NoQuorum,
        CallError::Overloaded => Kind::Overloaded,
        CallError::ShuttingDown => Kind::ShuttingDown,
        CallError::Refused(ServiceRefusal::Final(_)) => Kind::Refused,
        CallError::Refused(ServiceRefusal::NotNow(_)) => Kind::NotNow,
        CallError::Broken | CallError::TimedOut => Kind::Unspecified,
    };
    let message = match error {
        CallError::Refused(refusal) => refusal.to_string(),
        other => other.to_string(),
    };
    proto::Failure { kind: kind.into(), message }
}

fn read_failure(failure: proto::Failure) -> CallError {
    match failure.kind() {
        Kind::NotLeader => CallError::NoLeader,
        Kind::NoQuorum => CallError::NoQuorum,
        // The leader is overloaded or going away, not this node: either way the request was not considered.
        Kind::Overloaded => CallError::Overloaded,
        Kind::ShuttingDown => CallError::NoLeader,
        Kind::Refused => CallError::Refused(ServiceRefusal::Final(failure.message)),
        Kind::NotNow => CallError::Refused(ServiceRefusal::NotNow(failure.message)),
        Kind::Unspecified => CallError::Broken,
    }
}

pub fn refused(reason: Refusal, commands: Vec<Bytes>) -> proto::ForwardReply {
    let reason = match reason {
        Refusal::NotLeader => Reason::NotLeader,
        Refusal::Overloaded => Reason::Overloaded,
        Refusal::ShuttingDown => Reason::ShuttingDown,
    };
    let refused = proto::Refused { reason: reason.into(), commands };
    proto::ForwardReply { body: Some(proto::forward_reply::Body::Refused(refused)) }
}

pub fn read_reason(refused: &proto::Refused) -> Refusal {
    match refused.reason() {
        Reason::Overloaded => Refusal::Overloaded,
        // A leader that shuts down is no leader any more, as far as we are concerned.
        Reason::NotLeader | Reason::ShuttingDown | Reason::Unspecified => Refusal::NotLeader,
    }
}

pub fn newcomer(request: proto::JoinRequest) -> Newcomer {
    Newcomer { name: request.name, address: request.address }
}

pub fn admission(reply: proto::JoinReply) -> Admission {
    let member = |member: proto::Member| Member {
        node: NodeId(member.node),
        peer: Peer { name: member.name, address: member.address },
        voter: member.voter,
    };
    Admission {
        cluster: ClusterId(reply.cluster),
        node: NodeId(reply.node),
        members: reply.members.into_iter().map(member).collect(),
    }
}

pub fn admission_reply(admission: Admission) -> proto::JoinReply {
    let member = |member: Member| proto::Member {
        node: member.node.0,
        name: member.peer.name,
        address: member.peer.address,
        voter: member.voter,
    };
    proto::JoinReply {
        cluster: admission.cluster.0,
        node: admission.node.0,
        members: admission.members.into_iter().map(member).collect(),
    }
}
