//! The whole on-disk key space, in one place.
//!
//! | table     | key                                     | value                                                          |
//! |-----------|-----------------------------------------|----------------------------------------------------------------|
//! | `Records` | revision (u64 BE), sub (u32 BE)         | one change: what it did, to which key, what it replaced, value |
//! | `Keys`    | escaped key, `00 00`, !revision, !sub   | created, version, lease, tombstone; no value                   |
//! | `Meta`    | one tag byte, then an id where needed   | see [`MetaKey`]                                                |
//!
//! `Records` is value store, change log and history at once: a watch that catches up scans it, a read fetches from it
//! by position, and compaction walks it because each record names the one it replaced. `Keys` orders every kept
//! version of a key, newest first, without values, so counting and listing keys at a past revision reads none.
//!
//! A key is escaped (`00` becomes `00 FF`) so that `00 00` ends it and the order of keys is kept. Integers inside
//! values are LEB128 varints. Every value starts with a format byte, so a later version can tell old rows from new.
//! A record of format 2 is one of format 1 with an [`Author`] behind its key.
//!
//! # Reserved keys
//!
//! Among the keys of clients, those that start with `/setpoint.` are written by commits alone:
//!
//! | key                            | value                                                    |
//! |--------------------------------|----------------------------------------------------------|
//! | `/setpoint.v1/…`               | objects; what they are, `apiserver` knows                |
//! | `/setpoint.ledger/NAME`        | limits and use ([`crate::ledger::Ledger`])               |
//! | `/setpoint.ledger/NAME/OWNER`  | one reservation                                          |
//! | `/setpoint.epoch/SPACE/NAME`   | the last epoch of a lease object ([`crate::hold::Epoch`]) |
//! | `/setpoint.hold/SPACE/NAME`    | its holder ([`crate::hold::Hold`])                       |
//! | `/setpoint.rules`              | nothing: where it was last changed is what is asked for  |
//!
//! In the part before the last slash `%` and `/` are written `%25` and `%2F`, so that no two names share a key.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use setpoint_types::{KeyRange, LeaseId, NodeId, Revision, Timestamp};

use crate::author::Author;
use crate::codec::skip_bytes;
use crate::index::KeyState;
use crate::varint::{get_varint, put_varint, unzigzag, zigzag};

/// A row that cannot be read back: the disk or another program damaged it.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a stored {what} is damaged")]
pub struct Damaged {
    pub what: &'static str,
}

pub(crate) const FORMAT: u8 = 1;
/// Of a record with an author.
const FORMAT_AUTHORED: u8 = 2;
const PUT: u8 = 0;
const TOMBSTONE: u8 = 1;

/// The start of every reserved key, and what follows the last of them.
pub const RESERVED: &[u8] = b"/setpoint.";
const RESERVED_END: &[u8] = b"/setpoint/";
/// The keys of objects.
pub const OBJECTS: &[u8] = b"/setpoint.v1/";
pub const LEDGERS: &[u8] = b"/setpoint.ledger/";
pub const EPOCHS: &[u8] = b"/setpoint.epoch/";
pub const HOLDS: &[u8] = b"/setpoint.hold/";
/// Changes with every definition of a kind and every policy: whoever decided by them guards it.
pub const RULES: &[u8] = b"/setpoint.rules";

/// True for keys that clients of etcd's protocol may read but not write.
pub fn is_reserved(key: &[u8]) -> bool {
    key.starts_with(RESERVED)
}

/// True for keys that follow from a commit's other operations, which none may put or delete itself.
pub fn is_kept(key: &[u8]) -> bool {
    [LEDGERS, EPOCHS, HOLDS].iter().any(|prefix| key.starts_with(prefix))
}

/// What of a range is reserved.
pub fn reserved_part(range: &KeyRange) -> Option<KeyRange> {
    if let KeyRange::Single(key) = range {
        return is_reserved(key).then(|| range.clone());
    }
    let start = range.start().max(RESERVED);
    let end = match range {
        KeyRange::Span { end, .. } => RESERVED_END.min(&end[..]),
        _ => RESERVED_END,
    };
    let bytes = Bytes::copy_from_slice;
    (start < end).then(|| KeyRange::Span { start: bytes(start), end: bytes(end) })
}

/// Appends a name that must not contain a slash to a reserved key.
pub(crate) fn escape_name(key: &mut Vec<u8>, name: &str) {
    let mut rest = name.as_bytes();
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'%' | b'/')) {
        key.extend_from_slice(&rest[..at]);
        key.extend_from_slice(if rest[at] == b'%' { b"%25" } else { b"%2F" });
        rest = &rest[at + 1..];
    }
    key.extend_from_slice(rest);
}

/// Undoes [`escape_name`], and returns what follows the slash, if there is one.
pub(crate) fn split_name(rest: &[u8]) -> Option<(String, Option<String>)> {
    let rest = std::str::from_utf8(rest).ok()?;
    let (escaped, behind) = match rest.split_once('/') {
        Some((escaped, behind)) => (escaped, Some(behind.to_owned())),
        None => (rest, None),
    };
    Some((escaped.replace("%2F", "/").replace("%25", "%"), behind))
}

/// The second a time lies in: what `MetaKey::Second` counts.
pub fn second(time: Timestamp) -> u64 {
    time.0 / 1000
}

/// Where a change stands in history: its revision and its place within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId {
    pub revision: Revision,
    pub sub: u32,
}

impl RecordId {
    pub const LENGTH: usize = 12;

    pub fn encode(self) -> [u8; Self::LENGTH] {
        let mut key = [0; Self::LENGTH];
        key[..8].copy_from_slice(&self.revision.get().to_be_bytes());
        key[8..].copy_from_slice(&self.sub.to_be_bytes());
        key
    }

    pub fn decode(key: &[u8]) -> Result<Self, Damaged> {
        let damaged = Damaged { what: "record position" };
        let (revision, sub) = key.split_first_chunk::<8>().ok_or(damaged)?;
        let sub = sub.try_into().map_err(|_| Damaged { what: "record position" })?;
        Ok(Self { revision: Revision::new(u64::from_be_bytes(*revision)), sub: u32::from_be_bytes(sub) })
    }

    /// The smallest position of a revision.
    pub fn first_of(revision: Revision) -> Self {
        Self { revision, sub: 0 }
    }
}

/// One change to one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub key: Bytes,
    /// The version it replaced, if the key existed.
    pub replaced: Option<RecordId>,
    pub change: Change,
    /// Who made it, if that was a commit that says so.
    pub author: Option<Arc<Author>>,
}

/// A record without its value, borrowed from its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline<'a> {
    pub key: &'a [u8],
    pub replaced: Option<RecordId>,
    pub deleted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Put { value: Bytes, created: Revision, version: u64, lease: LeaseId },
    Delete,
}

impl Record {
    pub fn encode(&self) -> Vec<u8> {
        let value_length = match &self.change {
            Change::Put { value, .. } => value.len(),
            Change::Delete => 0,
        };
        let author_length = self.author.as_ref().map_or(0, |_| 128);
        let mut row = Vec::with_capacity(64 + author_length + self.key.len() + value_length);
        row.put_u8(if self.author.is_some() { FORMAT_AUTHORED } else { FORMAT });
        row.put_u8(if matches!(self.change, Change::Delete) { TOMBSTONE } else { PUT });
        let replaced = self.replaced.unwrap_or(RecordId::first_of(Revision::NONE));
        put_varint(&mut row, replaced.revision.get());
        put_varint(&mut row, replaced.sub.into());
        put_varint(&mut row, self.key.len() as u64);
        row.put_slice(&self.key);
        if let Some(author) = &self.author {
            author.put_stamped(&mut row);
        }
        if let Change::Put { value, created, version, lease } = &self.change {
            put_varint(&mut row, created.get());
            put_varint(&mut row, *version);
            put_varint(&mut row, zigzag(lease.0));
            row.put_slice(value);
        }
        row
    }

    pub fn decode(mut row: Bytes) -> Result<Self, Damaged> {
        Self::read(&mut row).ok_or(Damaged { what: "record" })
    }

    /// The value alone, which most reads want and nothing else; none if the record is of a delete.
    pub fn value(mut row: Bytes) -> Result<Option<Bytes>, Damaged> {
        Self::read_value(&mut row).ok_or(Damaged { what: "record" })
    }

    /// The same of a row that is somebody else's.
    pub fn value_of(mut row: &[u8]) -> Result<Option<&[u8]>, Damaged> {
        Self::read_value(&mut row).ok_or(Damaged { what: "record" })
    }

    fn read_value<R: Buf + Default>(row: &mut R) -> Option<Option<R>> {
        let authored = match row.try_get_u8().ok()? {
            FORMAT => false,
            FORMAT_AUTHORED => true,
            _ => return None,
        };
        let kind = row.try_get_u8().ok()?;
        get_varint(row)?;
        get_varint(row)?;
        skip_bytes(row)?;
        if authored {
            Author::skip_stamped(row)?;
        }
        match kind {
            PUT => {
                (0..3).try_for_each(|_| get_varint(row).map(drop))?;
                Some(Some(std::mem::take(row)))
            }
            TOMBSTONE => Some(None),
            _ => None,
        }
    }

    /// What a record says about its key, without its value: enough to delete what it made superfluous.
    pub fn outline(mut row: &[u8]) -> Result<Outline<'_>, Damaged> {
        Self::read_outline(&mut row).ok_or(Damaged { what: "record" })
    }

    fn read_outline<'a>(row: &mut &'a [u8]) -> Option<Outline<'a>> {
        matches!(row.try_get_u8().ok()?, FORMAT | FORMAT_AUTHORED).then_some(())?;
        let deleted = match row.try_get_u8().ok()? {
            PUT => false,
            TOMBSTONE => true,
            _ => return None,
        };
        let revision = Revision::new(get_varint(row)?);
        let sub = get_varint(row)?.try_into().ok()?;
        let replaced = (!revision.is_none()).then_some(RecordId { revision, sub });
        let length = usize::try_from(get_varint(row)?).ok()?;
        let key = row.get(..length)?;
        Some(Outline { key, replaced, deleted })
    }

    fn read(row: &mut Bytes) -> Option<Self> {
        let authored = match row.try_get_u8().ok()? {
            FORMAT => false,
            FORMAT_AUTHORED => true,
            _ => return None,
        };
        let kind = row.try_get_u8().ok()?;
        let revision = Revision::new(get_varint(row)?);
        let sub = get_varint(row)?.try_into().ok()?;
        let replaced = (!revision.is_none()).then_some(RecordId { revision, sub });
        let length = usize::try_from(get_varint(row)?).ok()?;
        let key = (length <= row.len()).then(|| row.split_to(length))?;
        let author = if authored { Some(Arc::new(Author::read_stamped(row)?)) } else { None };
        let change = match kind {
            PUT => Change::Put {
                created: Revision::new(get_varint(row)?),
                version: get_varint(row)?,
                lease: LeaseId(unzigzag(get_varint(row)?)),
                value: row.split_to(row.len()),
            },
            TOMBSTONE => Change::Delete,
            _ => return None,
        };
        Some(Self { key, replaced, change, author })
    }
}

/// A row of `Keys`: what one version of a key was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyVersion {
    pub state: KeyState,
    pub deleted: bool,
}

impl KeyVersion {
    pub fn encode(&self) -> Vec<u8> {
        let mut row = Vec::with_capacity(24);
        row.put_u8(FORMAT);
        row.put_u8(if self.deleted { TOMBSTONE } else { PUT });
        if !self.deleted {
            put_varint(&mut row, self.state.created.get());
            put_varint(&mut row, self.state.version);
            put_varint(&mut row, zigzag(self.state.lease.0));
        }
        row
    }

    pub fn decode(id: RecordId, mut row: &[u8]) -> Result<Self, Damaged> {
        Self::read(id, &mut row).ok_or(Damaged { what: "key version" })
    }

    fn read(id: RecordId, row: &mut &[u8]) -> Option<Self> {
        (row.try_get_u8().ok()? == FORMAT).then_some(())?;
        let deleted = row.try_get_u8().ok()? == TOMBSTONE;
        let (created, version, lease) = if deleted {
            (Revision::NONE, 0, LeaseId::NONE)
        } else {
            (Revision::new(get_varint(row)?), get_varint(row)?, LeaseId(unzigzag(get_varint(row)?)))
        };
        let state = KeyState { modified: id.revision, created, version, lease, sub: id.sub };
        Some(Self { state, deleted })
    }
}

/// A bound in `Keys` that lies before every version of `key` and of every greater key.
pub fn key_bound(key: &[u8]) -> Vec<u8> {
    let mut row = Vec::with_capacity(key.len() + 12);
    for &byte in key {
        row.push(byte);
        if byte == 0 {
            row.push(0xff);
        }
    }
    row
}

/// The row of one version. Newer versions sort first.
pub fn key_version(key: &[u8], id: RecordId) -> Vec<u8> {
    version_bound(&key_bound(key), id)
}

/// The same for a key that is escaped already: where its versions begin that are no newer than `id`.
pub fn version_bound(escaped: &[u8], id: RecordId) -> Vec<u8> {
    let mut row = Vec::with_capacity(escaped.len() + 2 + RecordId::LENGTH);
    row.extend_from_slice(escaped);
    row.extend_from_slice(&[0, 0]);
    row.extend(id.encode().map(|byte| !byte));
    row
}

/// Behind every version of an escaped key, and before every greater key.
pub fn versions_end(escaped: &[u8]) -> Vec<u8> {
    let mut row = Vec::with_capacity(escaped.len() + 2);
    row.extend_from_slice(escaped);
    row.extend_from_slice(&[0, 1]);
    row
}

/// Splits a row of `Keys` into the escaped key and the place of the change.
pub fn split_key_version(row: &[u8]) -> Result<(&[u8], RecordId), Damaged> {
    let (escaped, id) = row.split_last_chunk::<{ RecordId::LENGTH }>().ok_or(Damaged { what: "key row" })?;
    let escaped = escaped.strip_suffix(&[0, 0]).ok_or(Damaged { what: "key row" })?;
    Ok((escaped, RecordId::decode(&id.map(|byte| !byte))?))
}

/// Undoes the escaping of [`key_bound`].
pub fn unescape(escaped: &[u8]) -> Bytes {
    let mut key = BytesMut::with_capacity(escaped.len());
    let mut rest = escaped.iter();
    while let Some(&byte) = rest.next() {
        key.put_u8(byte);
        if byte == 0 {
            rest.next(); // the escape's FF
        }
    }
    key.freeze()
}

/// The rows of `Meta`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaKey {
    /// Term and index of the last applied log entry.
    Applied,
    /// The membership record that consensus keeps with the state; opaque here.
    Membership,
    /// The newest revision. Kept apart, so that reading it needs no search.
    Revision,
    /// The revision last compacted at.
    Compacted,
    /// How far the background collection has come.
    Collected,
    /// An alarm of a member.
    Alarm(NodeId, u8),
    /// A lease's granted time to live.
    Lease(LeaseId),
    /// What a member published about itself.
    Member(NodeId),
    /// A member that was removed; its id is never used again.
    Removed(NodeId),
    /// A learner that is to vote as soon as it has caught up.
    Expected(NodeId),
    /// A remembered operation, by its place among them.
    Operation(u64),
    /// The first revision written in a second since 1970, if there is one.
    Second(u64),
}

impl MetaKey {
    pub fn encode(self) -> Vec<u8> {
        match self {
            Self::Applied => vec![1],
            Self::Membership => vec![2],
            Self::Revision => vec![3],
            Self::Compacted => vec![4],
            Self::Collected => vec![5],
            Self::Alarm(member, kind) => {
                let mut row = vec![6];
                row.extend_from_slice(&member.0.to_be_bytes());
                row.push(kind);
                row
            }
            Self::Lease(lease) => with_id(7, lease.0 as u64),
            Self::Member(member) => with_id(8, member.0),
            Self::Removed(member) => with_id(9, member.0),
            Self::Expected(member) => with_id(10, member.0),
            Self::Operation(place) => with_id(11, place),
            Self::Second(second) => with_id(12, second),
        }
    }

    pub fn decode(row: &[u8]) -> Result<Self, Damaged> {
        let id =
            |rest: &[u8]| rest.try_into().map(u64::from_be_bytes).map_err(|_| Damaged { what: "meta key" });
        match row {
            [1] => Ok(Self::Applied),
            [2] => Ok(Self::Membership),
            [3] => Ok(Self::Revision),
            [4] => Ok(Self::Compacted),
            [5] => Ok(Self::Collected),
            [6, member @ .., kind] => Ok(Self::Alarm(NodeId(id(member)?), *kind)),
            [7, rest @ ..] => Ok(Self::Lease(LeaseId(id(rest)? as i64))),
            [8, rest @ ..] => Ok(Self::Member(NodeId(id(rest)?))),
            [9, rest @ ..] => Ok(Self::Removed(NodeId(id(rest)?))),
            [10, rest @ ..] => Ok(Self::Expected(NodeId(id(rest)?))),
            [11, rest @ ..] => Ok(Self::Operation(id(rest)?)),
            [12, rest @ ..] => Ok(Self::Second(id(rest)?)),
            _ => Err(Damaged { what: "meta key" }),
        }
    }
}

fn with_id(tag: u8, id: u64) -> Vec<u8> {
    let mut row = vec![tag];
    row.extend_from_slice(&id.to_be_bytes());
    row
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hold::{Epoch, Fence, LeaseName};

    fn value_of(record: &Record) -> Option<Bytes> {
        match &record.change {
            Change::Put { value, .. } => Some(value.clone()),
            Change::Delete => None,
        }
    }

    proptest! {
        #[test]
        fn keys_keep_their_order_and_newer_versions_come_first(
            a in prop::collection::vec(0u8..3, 0..6), b in prop::collection::vec(0u8..3, 0..6),
            older in 1u64..1000, newer in 1000u64..2000,
        ) {
            let id = |revision| RecordId { revision: Revision::new(revision), sub: 3 };
            let row = |key: &[u8], revision| key_version(key, id(revision));
            prop_assert_eq!(row(&a, older).cmp(&row(&b, older)), a.cmp(&b));
            prop_assert!(row(&a, newer) < row(&a, older));
            prop_assert!(key_bound(&a) <= row(&a, newer));
            let end = versions_end(&key_bound(&a));
            prop_assert!(row(&a, older) < end);
            if a < b {
                prop_assert!(row(&a, older) < key_bound(&b));
                prop_assert!(end <= row(&b, newer));
            }
            let encoded = row(&a, newer);
            let (escaped, place) = split_key_version(&encoded).unwrap();
            prop_assert_eq!((unescape(escaped).to_vec(), place), (a.clone(), id(newer)));
            let later = RecordId { sub: 4, ..id(newer) };
            prop_assert!(key_version(&a, later) < row(&a, newer));
        }

        #[test]
        fn records_survive_and_cut_ones_are_refused(
            key in prop::collection::vec(any::<u8>(), 0..20), value in prop::collection::vec(any::<u8>(), 0..40),
            created in 1u64.., version in any::<u64>(), lease in any::<i64>(), replaced in prop::option::of((1u64.., any::<u32>())),
        ) {
            let replaced = replaced.map(|(revision, sub)| RecordId { revision: Revision::new(revision), sub });
            let put = Change::Put { value: value.into(), created: Revision::new(created), version, lease: LeaseId(lease) };
            let author = Author { principal: "user:jane".to_owned(), time: Timestamp(version), ..Author::default() };
            let fence = Some(Fence { lease: LeaseName::new("ns", "leader"), epoch: Epoch(version) });
            let fenced = Author { fence, ..author.clone() };
            for (change, author) in [(put.clone(), None), (Change::Delete, None), (put.clone(), Some(author)), (put, Some(fenced.clone())), (Change::Delete, Some(fenced))] {
                let author = author.map(Arc::new);
                let record = Record { key: key.clone().into(), replaced, change, author };
                let row = record.encode();
                let outline =
                    Outline { key: &key, replaced, deleted: record.change == Change::Delete };
                prop_assert_eq!(Record::outline(&row), Ok(outline));
                prop_assert_eq!(Record::value(row.clone().into()), Ok(value_of(&record)));
                prop_assert_eq!(Record::decode(row.clone().into()), Ok(record));
                for cut in 0..(key.len() + 4).min(row.len()) {
                    prop_assert!(Record::decode(Bytes::copy_from_slice(&row[..cut])).is_err());
                    prop_assert!(Record::outline(&row[..cut]).is_err());
                }
            }
        }
    }

    /// Rows of this form are on disk, and what etcd's clients write has no other.
    #[test]
    fn a_record_without_an_author_is_of_the_first_format() {
        let replaced = Some(RecordId { revision: Revision::new(4), sub: 1 });
        let (created, lease) = (Revision::new(3), LeaseId(-1));
        let change = Change::Put { value: Bytes::from_static(b"v"), created, version: 2, lease };
        let record = Record { key: Bytes::from_static(b"k"), replaced, change, author: None };
        let row = [1, 0, 4, 1, 1, b'k', 3, 2, 1, b'v'];
        assert_eq!(record.encode(), row);
        assert_eq!(Record::value(Bytes::copy_from_slice(&row)), Ok(value_of(&record)));
        assert_eq!(Record::decode(Bytes::copy_from_slice(&row)), Ok(record));
    }

    #[test]
    fn what_of_a_range_is_reserved_is_known() {
        let bytes = |key: &'static str| Bytes::from_static(key.as_bytes());
        let span = |start, end| KeyRange::Span { start: bytes(start), end: bytes(end) };
        let all = span("/setpoint.", "/setpoint/");
        for (range, part) in [
            (KeyRange::Single(bytes("/setpoint.v1/a")), Some(KeyRange::Single(bytes("/setpoint.v1/a")))),
            (KeyRange::Single(bytes("/setpoint")), None),
            (KeyRange::From(bytes("")), Some(all.clone())),
            (KeyRange::From(bytes("/setpoint.z")), Some(span("/setpoint.z", "/setpoint/"))),
            (KeyRange::From(bytes("/setpoint/")), None),
            (span("a", "b"), None),
            (span("/a", "/setpoint."), None),
            (span("/a", "/setpoint.a"), Some(span("/setpoint.", "/setpoint.a"))),
            (span("/setpoint.b", "/setpoint.a"), None),
            (span("/", "0"), Some(all)),
        ] {
            assert_eq!(reserved_part(&range), part, "{range:?}");
        }
    }

    #[test]
    fn every_meta_key_is_read_back() {
        let keys = [
            MetaKey::Applied,
            MetaKey::Membership,
            MetaKey::Revision,
            MetaKey::Compacted,
            MetaKey::Collected,
            MetaKey::Alarm(NodeId(7), 1),
            MetaKey::Lease(LeaseId(-3)),
            MetaKey::Member(NodeId(u64::MAX)),
            MetaKey::Removed(NodeId(1)),
            MetaKey::Expected(NodeId(2)),
            MetaKey::Operation(3),
            MetaKey::Second(u64::MAX),
        ];
        for key in keys {
            assert_eq!(MetaKey::decode(&key.encode()), Ok(key));
        }
        assert!(
            MetaKey::decode(&[7, 1]).is_err()
                && MetaKey::decode(&[]).is_err()
                && MetaKey::decode(&[77]).is_err()
        );
    }
}
