//! The bytes of Raft's own types, on disk and between peers: entries, log ids, votes, memberships.
//!
//! Every value begins with a tag that names its type and its layout. A layout never changes under its tag: a
//! new layout takes a new tag, and the old one stays readable. Integers are little-endian, lengths and counts
//! are `u32`. All values are self-delimiting, so they can be put one after another. The commands of an entry
//! are not copied when it is decoded: they stay slices of the buffer they arrived in.
//!
//! Input is not trusted: whatever the bytes are, decoding ends in a value or an error. Not here: framing and
//! checksums, which belong to the log (`log::record`) and to the transport.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf, BufMut, Bytes};
use openraft::EntryPayload;

use crate::batch::{Batch, MalformedBatch};
use crate::peer::Peer;
use crate::raft::{Entry, LogId, Membership, StoredMembership, Vote};

/// The bytes are not what they should be: damaged, cut, or written by a newer version.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    #[error("the value is cut short")]
    Truncated,
    #[error("tag {tag:#04x} does not name a known layout of {expected}")]
    UnknownTag { tag: u8, expected: &'static str },
    #[error("the entry's commands are malformed")]
    Batch(#[source] MalformedBatch),
    #[error("the membership is not one that Raft could have produced")]
    Membership,
    #[error("a peer's name or address is not UTF-8")]
    Text,
    #[error("{count} bytes follow the value")]
    Trailing { count: usize },
}

/// A value with a place in the log or on the peer wire.
pub trait Wire: Sized {
    fn encode(&self, out: &mut impl BufMut);

    /// Takes one value from the front of `bytes`. After an error, what is left of `bytes` means nothing.
    fn decode(bytes: &mut Bytes) -> Result<Self, CodecError>;

    /// As `decode`, for bytes that must hold exactly one value.
    fn decode_whole(mut bytes: Bytes) -> Result<Self, CodecError> {
        let value = Self::decode(&mut bytes)?;
        match bytes.len() {
            0 => Ok(value),
            count => Err(CodecError::Trailing { count }),
        }
    }
}

/// What `Wire::encode` will write for `entry`, for callers that bound or frame before they encode.
/// Exact for blank entries and batches; memberships are small and rare, and are measured by encoding.
pub fn encoded_len(entry: &Entry) -> usize {
    const HEAD: usize = 1 + 8 + 8;
    match &entry.payload {
        EntryPayload::Blank => HEAD,
        EntryPayload::Normal(batch) => HEAD + 4 + batch.encoded().len(),
        EntryPayload::Membership(_) => {
            let mut bytes = Vec::new();
            entry.encode(&mut bytes);
            bytes.len()
        }
    }
}

mod tag {
    pub const NONE: u8 = 0x00;
    pub const LOG_ID: u8 = 0x01;
    pub const VOTE: u8 = 0x02;
    pub const ENTRY_BLANK: u8 = 0x03;
    pub const ENTRY_BATCH: u8 = 0x04;
    pub const ENTRY_MEMBERSHIP: u8 = 0x05;
    pub const STORED_MEMBERSHIP: u8 = 0x06;
}

impl Wire for LogId {
    fn encode(&self, out: &mut impl BufMut) {
        out.put_u8(tag::LOG_ID);
        put_log_id(self, out);
    }

    fn decode(bytes: &mut Bytes) -> Result<Self, CodecError> {
        match take_u8(bytes)? {
            tag::LOG_ID => take_log_id(bytes),
            tag => Err(CodecError::UnknownTag { tag, expected: "a log id" }),
        }
    }
}

impl Wire for Vote {
    fn encode(&self, out: &mut impl BufMut) {
        out.put_u8(tag::VOTE);
        out.put_u64_le(self.leader_id.term);
        out.put_u64_le(self.leader_id.voted_for);
        out.put_u8(self.committed.into());
    }

    fn decode(bytes: &mut Bytes) -> Result<Self, CodecError> {
        match take_u8(bytes)? {
            tag::VOTE => {}
            tag => return Err(CodecError::UnknownTag { tag, expected: "a vote" }),
        }
        let (term, node) = (take_u64(bytes)?, take_u64(bytes)?);
        match take_u8(bytes)? {
            0 => Ok(Vote::new(term, node)),
            1 => Ok(Vote::new_committed(term, node)),
            tag => Err(CodecError::UnknownTag { tag, expected: "whether a vote is committed" }),
        }
    }
}

impl Wire for Entry {
    fn encode(&self, out: &mut impl BufMut) {
        match &self.payload {
            EntryPayload::Blank => {
                out.put_u8(tag::ENTRY_BLANK);
                put_log_id(&self.log_id, out);
            }
            EntryPayload::Normal(batch) => {
                out.put_u8(tag::ENTRY_BATCH);
                put_log_id(&self.log_id, out);
                put_bytes(batch.encoded(), out);
            }
            EntryPayload::Membership(membership) => {
                out.put_u8(tag::ENTRY_MEMBERSHIP);
                put_log_id(&self.log_id, out);
                put_membership(membership, out);
            }
        }
    }

    fn decode(bytes: &mut Bytes) -> Result<Self, CodecError> {
        let tag = take_u8(bytes)?;
        if !matches!(tag, tag::ENTRY_BLANK | tag::ENTRY_BATCH | tag::ENTRY_MEMBERSHIP) {
            return Err(CodecError::UnknownTag { tag, expected: "a log entry" });
        }
        let log_id = take_log_id(bytes)?;
        let payload = match tag {
            tag::ENTRY_BATCH => EntryPayload::Normal(take_batch(bytes)?),
            tag::ENTRY_MEMBERSHIP => EntryPayload::Membership(take_membership(bytes)?),
            _ => EntryPayload::Blank,
        };
        Ok(Entry { log_id, payload })
    }
}

impl Wire for StoredMembership {
    fn encode(&self, out: &mut impl BufMut) {
        out.put_u8(tag::STORED_MEMBERSHIP);
        self.log_id().encode(out);
        put_membership(self.membership(), out);
    }

    fn decode(bytes: &mut Bytes) -> Result<Self, CodecError> {
        match take_u8(bytes)? {
            tag::STORED_MEMBERSHIP => {
                let log_id = Option::<LogId>::decode(bytes)?;
                Ok(StoredMembership::new(log_id, take_membership(bytes)?))
            }
            tag => Err(CodecError::UnknownTag { tag, expected: "a stored membership" }),
        }
    }
}

impl<T: Wire> Wire for Option<T> {
    fn encode(&self, out: &mut impl BufMut) {
        match self {
            Some(value) => value.encode(out),
            None => out.put_u8(tag::NONE),
        }
    }

    fn decode(bytes: &mut Bytes) -> Result<Self, CodecError> {
        if bytes.first() == Some(&tag::NONE) {
            bytes.advance(1);
            return Ok(None);
        }
        T::decode(bytes).map(Some)
    }
}

fn put_log_id(log_id: &LogId, out: &mut impl BufMut) {
    out.put_u64_le(*log_id.leader_id);
    out.put_u64_le(log_id.index);
}

fn take_log_id(bytes: &mut Bytes) -> Result<LogId, CodecError> {
    let (term, index) = (take_u64(bytes)?, take_u64(bytes)?);
    Ok(LogId { leader_id: term.into(), index })
}

fn take_batch(bytes: &mut Bytes) -> Result<Batch, CodecError> {
    let encoded = take_bytes(bytes)?;
    if encoded.is_empty() {
        return Ok(Batch::default());
    }
    Batch::decode(encoded).map_err(CodecError::Batch)
}

fn put_membership(membership: &Membership, out: &mut impl BufMut) {
    put_count(membership.get_joint_config().len(), out);
    for voters in membership.get_joint_config() {
        put_count(voters.len(), out);
        for voter in voters {
            out.put_u64_le(*voter);
        }
    }
    put_count(membership.nodes().count(), out);
    for (id, Peer { name, address }) in membership.nodes() {
        out.put_u64_le(*id);
        put_bytes(name.as_bytes(), out);
        put_bytes(address.as_bytes(), out);
    }
}

/// Nothing is reserved by a count from the input: each element has to be there before it takes memory.
fn take_membership(bytes: &mut Bytes) -> Result<Membership, CodecError> {
    let mut configs = Vec::new();
    for _ in 0..take_u32(bytes)? {
        let mut voters = BTreeSet::new();
        for _ in 0..take_u32(bytes)? {
            if !voters.insert(take_u64(bytes)?) {
                return Err(CodecError::Membership);
            }
        }
        configs.push(voters);
    }
    let mut nodes = BTreeMap::new();
    for _ in 0..take_u32(bytes)? {
        let id = take_u64(bytes)?;
        let peer = Peer { name: take_text(bytes)?, address: take_text(bytes)? };
        if nodes.insert(id, peer).is_some() {
            return Err(CodecError::Membership);
        }
    }
    Membership::new(configs, nodes).map_err(|_| CodecError::Membership)
}

fn put_bytes(value: &[u8], out: &mut impl BufMut) {
    put_count(value.len(), out);
    out.put_slice(value);
}

fn put_count(count: usize, out: &mut impl BufMut) {
    out.put_u32_le(
        u32::try_from(count).expect("proposals are bounded far below 4 GiB before they become entries"),
    );
}

fn take_text(bytes: &mut Bytes) -> Result<String, CodecError> {
    String::from_utf8(take_bytes(bytes)?.into()).map_err(|_| CodecError::Text)
}

fn take_bytes(bytes: &mut Bytes) -> Result<Bytes, CodecError> {
    let length = take_u32(bytes)? as usize;
    if bytes.len() < length {
        return Err(CodecError::Truncated);
    }
    Ok(bytes.split_to(length))
}

fn take_u8(bytes: &mut Bytes) -> Result<u8, CodecError> {
    bytes.try_get_u8().map_err(|_| CodecError::Truncated)
}

fn take_u32(bytes: &mut Bytes) -> Result<u32, CodecError> {
    bytes.try_get_u32_le().map_err(|_| CodecError::Truncated)
}

fn take_u64(bytes: &mut Bytes) -> Result<u64, CodecError> {
    bytes.try_get_u64_le().map_err(|_| CodecError::Truncated)
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use setpoint_types::Timestamp;

    use super::*;

    fn log_id() -> impl Strategy<Value = LogId> {
        any::<(u64, u64)>().prop_map(|(term, index)| LogId { leader_id: term.into(), index })
    }

    fn vote() -> impl Strategy<Value = Vote> {
        any::<(u64, u64, bool)>().prop_map(|(term, node, committed)| match committed {
            true => Vote::new_committed(term, node),
            false => Vote::new(term, node),
        })
    }

    fn peer() -> impl Strategy<Value = Peer> {
        (".{0,8}", ".{0,12}").prop_map(|(name, address)| Peer { name, address })
    }

    fn membership() -> impl Strategy<Value = Membership> {
        (btree_map(any::<u64>(), peer(), 1..6), vec(vec(any::<prop::sample::Index>(), 1..4), 0..3)).prop_map(
            |(nodes, picks)| {
                let ids: Vec<u64> = nodes.keys().copied().collect();
                let configs =
                    picks.iter().map(|config| config.iter().map(|pick| *pick.get(&ids)).collect()).collect();
                Membership::new(configs, nodes).expect("voters are picked from the nodes")
            },
        )
    }

    fn batch() -> impl Strategy<Value = Batch> {
        let command = vec(any::<u8>(), 0..40).prop_map(Bytes::from);
        prop_oneof![
            1 => Just(Batch::default()),
            9 => (any::<u64>(), vec(command, 0..4)).prop_map(|(stamp, commands)| Batch::new(Timestamp(stamp), &commands)),
        ]
    }

    fn entry() -> impl Strategy<Value = Entry> {
        let payload = prop_oneof![
            Just(EntryPayload::Blank),
            batch().prop_map(EntryPayload::Normal),
            membership().prop_map(EntryPayload::Membership),
        ];
        (log_id(), payload).prop_map(|(log_id, payload)| Entry { log_id, payload })
    }

    fn encoded(value: &impl Wire) -> Bytes {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        bytes.into()
    }

    /// What is encoded decodes to itself; every proper prefix and every longer input is refused.
    fn check<T: Wire + PartialEq + std::fmt::Debug>(value: T) {
        let bytes = encoded(&value);
        for cut in 0..bytes.len() {
            assert!(T::decode_whole(bytes.slice(..cut)).is_err(), "{value:?} cut at {cut} was accepted");
        }
        let longer = Bytes::from([&bytes[..], &[0]].concat());
        assert!(matches!(T::decode_whole(longer), Err(CodecError::Trailing { count: 1 })));
        assert_eq!(T::decode_whole(bytes).expect("what was encoded decodes"), value);
    }

    proptest! {
        #[test]
        fn log_ids_survive(log_id in prop::option::of(log_id())) { check(log_id) }

        #[test]
        fn votes_survive(vote in prop::option::of(vote())) { check(vote) }

        #[test]
        fn stored_memberships_survive(log_id in prop::option::of(log_id()), membership in membership()) {
            check(StoredMembership::new(log_id, membership))
        }

        #[test]
        fn entries_survive_and_their_size_is_known(entry in entry()) {
            prop_assert_eq!(encoded_len(&entry), encoded(&entry).len());
            check(entry)
        }

        #[test]
        fn damaged_bytes_never_panic(entry in entry(), at in any::<prop::sample::Index>(), flip in 1..=255u8) {
            let mut bytes = encoded(&entry).to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            let _ = Entry::decode_whole(bytes.into());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
            let bytes = Bytes::from(bytes);
            let _ = Entry::decode_whole(bytes.clone());
            let _ = Vote::decode_whole(bytes.clone());
            let _ = LogId::decode_whole(bytes.clone());
            let _ = StoredMembership::decode_whole(bytes);
        }
    }

    #[test]
    fn commands_are_slices_of_the_input() {
        let command = Bytes::from(vec![7; 300]);
        let log_id = LogId { leader_id: 1.into(), index: 2 };
        let payload = EntryPayload::Normal(Batch::new(Timestamp(3), [&command]));
        let bytes = encoded(&Entry { log_id, payload });
        let read = Entry::decode_whole(bytes.clone()).expect("what was encoded decodes");
        let EntryPayload::Normal(batch) = read.payload else { panic!("a batch was encoded") };
        assert!(bytes.as_ptr_range().contains(&batch.encoded().as_ptr()));
    }

    #[test]
    fn a_huge_count_costs_no_memory() {
        let mut bytes = vec![tag::ENTRY_MEMBERSHIP];
        bytes.extend([0; 16]);
        bytes.extend(u32::MAX.to_le_bytes());
        assert!(matches!(Entry::decode_whole(bytes.into()), Err(CodecError::Truncated)));
    }
}
