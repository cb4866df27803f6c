//! Peer messages to Raft's types and back.
//!
//! openraft trusts its peers: a vote in the name of the receiver, or entries with a gap, would end in a panic or a
//! damaged log. So what arrives is checked here against everything a correct peer could have sent, and the rest of the
//! crate can rely on it.

use bytes::{Bytes, BytesMut};
use openraft::raft::{AppendEntriesRequest, VoteRequest, VoteResponse};
use setpoint_api::setpoint::peer::v1 as proto;
use setpoint_types::NodeId;
use tonic::Status;

use crate::codec::{Wire, encoded_len};
use crate::raft::{Entry, LogId, TypeConfig, Vote};

/// A correct peer could not have sent this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed message from a peer: {0}")]
pub struct Malformed(pub &'static str);

impl From<Malformed> for Status {
    fn from(malformed: Malformed) -> Self {
        Status::invalid_argument(malformed.to_string())
    }
}

pub fn ballot(vote: &Vote) -> proto::Ballot {
    proto::Ballot { term: vote.leader_id.term, node: vote.leader_id.voted_for, committed: vote.committed }
}

pub fn vote(ballot: Option<proto::Ballot>) -> Result<Vote, Malformed> {
    let proto::Ballot { term, node, committed } = ballot.ok_or(Malformed("no ballot"))?;
    Ok(if committed { Vote::new_committed(term, node) } else { Vote::new(term, node) })
}

/// The ballot of an elected leader.
pub fn leader(ballot: Option<proto::Ballot>) -> Result<Vote, Malformed> {
    let vote = vote(ballot)?;
    if vote.committed { Ok(vote) } else { Err(Malformed("the sender does not claim to lead")) }
}

/// The ballot of the node that sent it.
pub fn owned(vote: Vote, sender: NodeId) -> Result<Vote, Malformed> {
    if vote.leader_id.voted_for == sender.0 {
        Ok(vote)
    } else {
        Err(Malformed("the ballot is not the sender's"))
    }
}

/// A newer ballot reported by a peer. It cannot be our own leadership: we would know of that.
pub fn newer(ballot: Option<proto::Ballot>, us: NodeId) -> Result<Vote, Malformed> {
    let vote = vote(ballot)?;
    if vote.committed && vote.leader_id.voted_for == us.0 {
        return Err(Malformed("the newer leader is the receiver itself"));
    }
    Ok(vote)
}

pub fn log_id(log_id: LogId) -> proto::LogId {
    proto::LogId { term: *log_id.leader_id, index: log_id.index }
}

pub fn read_log_id(log_id: proto::LogId) -> LogId {
    LogId { leader_id: log_id.term.into(), index: log_id.index }
}

pub fn append(request: AppendEntriesRequest<TypeConfig>) -> proto::AppendRequest {
    let mut entries = BytesMut::with_capacity(request.entries.iter().map(encoded_len).sum());
    for entry in &request.entries {
        entry.encode(&mut entries);
    }
    proto::AppendRequest {
        leader: Some(ballot(&request.vote)),
        previous: request.prev_log_id.map(log_id),
        committed: request.leader_commit.map(log_id),
        entries: entries.freeze(),
    }
}

pub fn read_append(
    request: proto::AppendRequest,
    sender: NodeId,
) -> Result<AppendEntriesRequest<TypeConfig>, Malformed> {
    let vote = owned(leader(request.leader)?, sender)?;
    let term = vote.leader_id.term;
    let prev_log_id = request.previous.map(read_log_id);
    let leader_commit = request.committed.map(read_log_id);
    if [prev_log_id, leader_commit].iter().flatten().any(|log_id| *log_id.leader_id > term) {
        return Err(Malformed("a position is newer than the leader that sends it"));
    }
    let entries = read_entries(request.entries, prev_log_id, term)?;
    Ok(AppendEntriesRequest { vote, prev_log_id, entries, leader_commit })
}

/// Entries without a gap, each no older than the one before it and none newer than the leader.
fn read_entries(
    mut bytes: Bytes,
    previous: Option<LogId>,
    leader_term: u64,
) -> Result<Vec<Entry>, Malformed> {
    let mut entries = Vec::new();
    let (mut term, mut next) = match previous {
        Some(previous) => (*previous.leader_id, previous.index.checked_add(1)),
        None => (0, Some(0)),
    };
    while !bytes.is_empty() {
        let entry = Entry::decode(&mut bytes).map_err(|_| Malformed("an entry cannot be read"))?;
        if Some(entry.log_id.index) != next {
            return Err(Malformed("the entries have a gap"));
        }
        let entry_term = *entry.log_id.leader_id;
        if entry_term < term || entry_term > leader_term {
            return Err(Malformed("an entry's term is out of order"));
        }
        (term, next) = (entry_term, entry.log_id.index.checked_add(1));
        entries.push(entry);
    }
    Ok(entries)
}

pub fn vote_request(request: &VoteRequest<TypeConfig>) -> proto::VoteRequest {
    proto::VoteRequest {
        candidate: Some(ballot(&request.vote)),
        last_log: request.last_log_id.map(log_id),
        leadership_transfer: request.leadership_transfer,
    }
}

pub fn read_vote_request(
    request: proto::VoteRequest,
    sender: NodeId,
) -> Result<VoteRequest<TypeConfig>, Malformed> {
    let vote = owned(vote(request.candidate)?, sender)?;
    if vote.committed {
        return Err(Malformed("a candidate claims to be elected already"));
    }
    let last_log_id = request.last_log.map(read_log_id);
    if last_log_id.is_some_and(|log_id| *log_id.leader_id >= vote.leader_id.term) {
        return Err(Malformed("the candidate's log is newer than its term"));
    }
    Ok(VoteRequest { vote, last_log_id, leadership_transfer: request.leadership_transfer })
}

pub fn vote_reply(response: &VoteResponse<TypeConfig>) -> proto::VoteReply {
    proto::VoteReply {
        ballot: Some(ballot(&response.vote)),
        granted: response.vote_granted,
        last_log: response.last_log_id.map(log_id),
    }
}

pub fn read_vote_reply(reply: proto::VoteReply) -> Result<VoteResponse<TypeConfig>, Malformed> {
    let vote = vote(reply.ballot)?;
    Ok(VoteResponse { vote, vote_granted: reply.granted, last_log_id: reply.last_log.map(read_log_id) })
}

#[cfg(test)]
mod tests {
    use openraft::EntryPayload;

    use super::*;

    const SENDER: NodeId = NodeId(1);

    fn at(term: u64, index: u64) -> LogId {
        LogId { leader_id: term.into(), index }
    }

    fn request(leader: Vote, previous: Option<LogId>, entries: &[LogId]) -> proto::AppendRequest {
        let entries = entries.iter().map(|log_id| Entry { log_id: *log_id, payload: EntryPayload::Blank });
        append(AppendEntriesRequest {
            vote: leader,
            prev_log_id: previous,
            entries: entries.collect(),
            leader_commit: previous,
        })
    }

    #[test]
    fn a_correct_append_survives() {
        let sent = request(Vote::new_committed(3, 1), Some(at(2, 4)), &[at(2, 5), at(3, 6)]);
        let read = read_append(sent, SENDER).expect("a correct append");
        assert_eq!((read.vote, read.prev_log_id), (Vote::new_committed(3, 1), Some(at(2, 4))));
        assert_eq!(read.entries.iter().map(|entry| entry.log_id).collect::<Vec<_>>(), [at(2, 5), at(3, 6)]);
        assert!(read_append(request(Vote::new_committed(3, 1), None, &[at(0, 0), at(1, 1)]), SENDER).is_ok());
    }

    #[test]
    fn what_no_correct_leader_sends_is_refused() {
        let leader = Vote::new_committed(3, 1);
        for (wrong, why) in [
            (request(Vote::new(3, 1), None, &[]), "not elected"),
            (request(Vote::new_committed(3, 2), None, &[]), "in another's name"),
            (request(leader, Some(at(4, 4)), &[]), "previous from the future"),
            (request(leader, Some(at(2, 4)), &[at(2, 6)]), "a gap"),
            (request(leader, Some(at(2, 4)), &[at(2, 4)]), "a repeated index"),
            (request(leader, Some(at(2, 4)), &[at(1, 5)]), "an older term"),
            (request(leader, Some(at(2, 4)), &[at(4, 5)]), "a term after the leader's"),
            (request(leader, Some(at(2, u64::MAX)), &[at(2, 0)]), "an index past the last"),
            (
                proto::AppendRequest { entries: Bytes::from_static(b"?"), ..request(leader, None, &[]) },
                "no entry",
            ),
            (proto::AppendRequest::default(), "nothing"),
        ] {
            assert!(read_append(wrong, SENDER).is_err(), "{why} was accepted");
        }
    }

    #[test]
    fn candidates_speak_for_themselves_and_are_not_elected_yet() {
        let check = |vote: Vote, last: Option<LogId>| {
            read_vote_request(vote_request(&VoteRequest::new(vote, last)), SENDER).is_ok()
        };
        assert!(check(Vote::new(3, 1), Some(at(2, 9))) && check(Vote::new(1, 1), None));
        assert!(!check(Vote::new(3, 2), None), "in another's name");
        assert!(!check(Vote::new_committed(3, 1), None), "elected already");
        assert!(!check(Vote::new(3, 1), Some(at(3, 9))), "a log from its own future term");
    }

    #[test]
    fn nobody_tells_us_that_we_lead() {
        assert!(newer(Some(ballot(&Vote::new_committed(9, 1))), NodeId(1)).is_err());
        assert!(newer(Some(ballot(&Vote::new_committed(9, 2))), NodeId(1)).is_ok());
        assert!(newer(Some(ballot(&Vote::new(9, 1))), NodeId(1)).is_ok());
        assert!(newer(None, NodeId(1)).is_err());
    }
}
