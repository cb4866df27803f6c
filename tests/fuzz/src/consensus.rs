//! What the log's files hold and what other nodes send.

use bytes::Bytes;
use prost::Message;
use setpoint_api::setpoint::peer::v1 as proto;
use setpoint_consensus::Batch;
use setpoint_consensus::decoders::{MembershipRecord, Wire, wire};
use setpoint_consensus::log::{Entry, LogId, Vote};
use setpoint_types::NodeId;

/// Whatever can be read is written down as something that reads the same.
pub fn log_records(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    same::<Entry>(&bytes);
    same::<Option<Vote>>(&bytes);
    same::<Option<LogId>>(&bytes);
    if let Ok(record) = MembershipRecord::decode(Some(&bytes)) {
        let again = MembershipRecord::decode(Some(&record.encode())).expect("what was encoded");
        assert_eq!(again, record);
    }
    if let Ok(batch) = Batch::decode(bytes) {
        let commands: Vec<Bytes> = batch.commands().collect();
        assert_eq!(Batch::new(batch.stamp(), &commands), batch);
    }
}

fn same<T: Wire + PartialEq + std::fmt::Debug>(bytes: &Bytes) {
    let Ok(value) = T::decode_whole(bytes.clone()) else { return };
    let mut encoded = Vec::new();
    value.encode(&mut encoded);
    let again = T::decode_whole(encoded.into()).expect("what was encoded");
    assert_eq!(again, value);
}

/// What a peer may send is what a correct peer could have sent: its entries follow one another, and it says it again.
pub fn peer_messages(data: &[u8]) {
    // Few bits of a random number would ever be those of the sender.
    let sender = |ballot: &Option<proto::Ballot>| NodeId(ballot.as_ref().map_or(0, |ballot| ballot.node));
    if let Ok(message) = proto::AppendRequest::decode(data) {
        let sender = sender(&message.leader);
        if let Ok(request) = wire::read_append(message, sender) {
            let before = request.prev_log_id.map(|previous| previous.index);
            let first = before.map_or(Some(0), |index| index.checked_add(1));
            for (entry, expected) in request.entries.iter().zip(first.unwrap_or_default()..) {
                assert_eq!(entry.log_id.index, expected, "entries without a gap");
            }
            let sent = wire::append(request.clone());
            let again = wire::read_append(sent, sender).expect("what was read");
            assert_eq!(again.entries, request.entries);
            assert_eq!(
                (again.prev_log_id, again.leader_commit),
                (request.prev_log_id, request.leader_commit)
            );
        }
    }
    if let Ok(message) = proto::VoteRequest::decode(data) {
        let sender = sender(&message.candidate);
        if let Ok(request) = wire::read_vote_request(message, sender) {
            let again = wire::read_vote_request(wire::vote_request(&request), sender).expect("what was read");
            assert_eq!((again.vote, again.last_log_id), (request.vote, request.last_log_id));
        }
    }
    if let Ok(message) = proto::VoteReply::decode(data)
        && let Ok(reply) = wire::read_vote_reply(message)
    {
        let again = wire::read_vote_reply(wire::vote_reply(&reply)).expect("what was read");
        assert_eq!((again.vote, again.vote_granted), (reply.vote, reply.vote_granted));
    }
}
