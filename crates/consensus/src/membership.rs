//! The membership as the state machine keeps it: Raft's own record, and the highest member id there ever was.
//!
//! An id must never be used twice: a node that comes back under the id of another one could make two quorums that do
//! not intersect. So a new member's id has to be higher than every id before it, and what "before" means has to
//! survive the removal of the highest member, restarts and snapshots. Computed from the log alone, it is the same on
//! every replica. Not here: the rules of changing a membership (`node::members`).

use bytes::{BufMut, Bytes, BytesMut};
use setpoint_types::NodeId;

use crate::codec::{CodecError, Wire};
use crate::raft::StoredMembership;

/// Layout: tag, highest id (u64 LE), the stored membership.
const TAG: u8 = 0x10;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MembershipRecord {
    highest: u64,
    stored: StoredMembership,
}

impl MembershipRecord {
    /// Reads what the state machine kept; nothing kept means no member yet.
    pub fn decode(bytes: Option<&Bytes>) -> Result<Self, CodecError> {
        let Some(bytes) = bytes else { return Ok(Self::default()) };
        let (head, rest) = bytes.split_first_chunk::<9>().ok_or(CodecError::Truncated)?;
        let [tag, highest @ ..] = *head;
        if tag != TAG {
            return Err(CodecError::UnknownTag { tag, expected: "a membership record" });
        }
        let stored = StoredMembership::decode_whole(bytes.slice_ref(rest))?;
        Ok(Self { highest: u64::from_le_bytes(highest), stored })
    }

    pub fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::new();
        bytes.put_u8(TAG);
        bytes.put_u64_le(self.highest);
        self.stored.encode(&mut bytes);
        bytes.freeze()
    }

    /// The record after `stored` took effect.
    #[must_use]
    pub fn advance(&self, stored: StoredMembership) -> Self {
        let highest = stored.nodes().map(|(id, _)| *id).max().unwrap_or(0).max(self.highest);
        Self { highest, stored }
    }

    pub fn stored(&self) -> &StoredMembership {
        &self.stored
    }

    pub fn contains(&self, node: NodeId) -> bool {
        self.stored.nodes().any(|(id, _)| *id == node.0)
    }

    /// True if the node was a member and is none any more. Ids are given in order, so one that is not higher than the
    /// highest was given away once.
    pub fn is_former(&self, node: NodeId) -> bool {
        node.0 <= self.highest && !self.contains(node)
    }

    /// The highest id that is or was a member's. Zero before the first.
    pub fn highest(&self) -> u64 {
        self.highest
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::peer::Peer;
    use crate::raft::{LogId, Membership};

    fn stored(index: u64, ids: &[u64]) -> StoredMembership {
        let nodes: BTreeMap<u64, Peer> = ids.iter().map(|id| (*id, Peer::default())).collect();
        let voters: BTreeSet<u64> = ids.iter().copied().collect();
        let membership = Membership::new(vec![voters], nodes).expect("every voter is a node");
        StoredMembership::new(Some(LogId { leader_id: 1.into(), index }), membership)
    }

    #[test]
    fn the_highest_id_outlives_its_member() {
        let record = MembershipRecord::default().advance(stored(1, &[1, 2, 7])).advance(stored(2, &[1, 2]));
        assert_eq!(record.highest(), 7);
        assert!(record.is_former(NodeId(7)) && !record.contains(NodeId(7)));
        assert!(!record.is_former(NodeId(2)), "a member");
        assert!(!record.is_former(NodeId(8)), "nobody yet");
        assert!(!MembershipRecord::default().is_former(NodeId(1)), "nothing is known");
        let read = MembershipRecord::decode(Some(&record.encode())).expect("what was encoded decodes");
        assert_eq!(read, record);
    }

    #[test]
    fn damaged_records_are_refused() {
        let bytes = MembershipRecord::default().advance(stored(1, &[1, 2])).encode();
        for cut in 0..bytes.len() {
            assert!(MembershipRecord::decode(Some(&bytes.slice(..cut))).is_err(), "cut at {cut}");
        }
        assert!(MembershipRecord::decode(Some(&Bytes::from_static(&[0; 20]))).is_err());
        assert_eq!(MembershipRecord::decode(None).expect("nothing kept"), MembershipRecord::default());
    }
}
