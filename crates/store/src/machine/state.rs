//! What the state machine keeps in memory: an index of the live keys and a few small tables. Values stay on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};

use bytes::{Buf, Bytes, BytesMut};
use setpoint_types::{KeyRange, LeaseId, NodeId, Revision, Timestamp};

use super::lease_changes::LeaseChanges;
use super::operations::Operations;
use crate::codec;
use crate::command::{Alarm, AlarmKind, MemberAttributes};
use crate::encoding::{self, Damaged, KeyVersion, MetaKey};
use crate::engine::{Engine, EngineFailure, Table};
use crate::index::Index;
use crate::varint::{get_varint, put_varint, unzigzag, zigzag};
use crate::verdict::Rejection;

/// A place in the Raft log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub term: u64,
    pub index: u64,
}

/// A granted lease and the keys that die with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// Seconds.
    pub ttl: i64,
    /// The number of the change (`State::lease_changes`) that granted it, which tells it from an earlier lease of the same id. Not
    /// stored, and not the same on all replicas.
    pub granted_at: u64,
    /// The term of the leader that granted it; 0 if that was before this node started. Not stored.
    pub granted_in: u64,
    pub keys: BTreeSet<Bytes>,
}

/// A lease as whoever counts its time needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantedLease {
    pub id: LeaseId,
    /// Seconds.
    pub ttl: i64,
    /// See [`Lease::granted_at`].
    pub granted_at: u64,
    /// See [`Lease::granted_in`].
    pub granted_in: u64,
}

impl Lease {
    pub fn granted(&self, id: LeaseId) -> GrantedLease {
        GrantedLease { id, ttl: self.ttl, granted_at: self.granted_at, granted_in: self.granted_in }
    }
}

pub struct State {
    pub index: Index,
    pub revision: Revision,
    /// The revision last compacted at; -1 before the first compaction, so that compacting at 0 is accepted once.
    pub compacted: i64,
    pub leases: BTreeMap<LeaseId, Lease>,
    /// So that followers of the leases need not compare them. Not stored.
    pub lease_changes: LeaseChanges,
    pub alarms: BTreeSet<Alarm>,
    pub members: BTreeMap<NodeId, MemberAttributes>,
    pub removed: BTreeSet<NodeId>,
    pub expected_voters: BTreeSet<NodeId>,
    pub operations: Operations,
    /// The time of the newest entry. Never goes back, whatever the leaders' clocks do.
    pub stamp: Timestamp,
    /// The last second for which there is a row `MetaKey::Second`.
    pub marked: Option<u64>,
    pub applied: Option<Position>,
    pub membership: Option<Bytes>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            index: Index::default(),
            revision: Revision::INITIAL,
            compacted: -1,
            leases: BTreeMap::new(),
            lease_changes: LeaseChanges::default(),
            alarms: BTreeSet::new(),
            members: BTreeMap::new(),
            removed: BTreeSet::new(),
            expected_voters: BTreeSet::new(),
            operations: Operations::default(),
            stamp: Timestamp::default(),
            marked: None,
            applied: None,
            membership: None,
        }
    }
}

impl State {
    /// Reads the state an engine holds.
    pub fn load(engine: &dyn Engine) -> Result<Self, EngineFailure> {
        let mut state = Self::default();
        state.load_meta(engine)?;
        state.load_keys(engine)?;
        Ok(state)
    }

    /// Reads only how far an engine's state has come.
    pub fn load_position(engine: &dyn Engine) -> Result<(Option<Position>, Option<Bytes>), EngineFailure> {
        let position = engine.get(Table::Meta, &MetaKey::Applied.encode())?;
        let position = position.map(|row| decode_position(&row)).transpose()?;
        Ok((position, engine.get(Table::Meta, &MetaKey::Membership.encode())?))
    }

    fn load_meta(&mut self, engine: &dyn Engine) -> Result<(), EngineFailure> {
        let mut result = Ok(());
        engine.scan(Table::Meta, &[], None, &mut |key, value| match self.load_meta_row(key, value) {
            Ok(()) => ControlFlow::Continue(()),
            Err(damaged) => {
                result = Err(damaged.into());
                ControlFlow::Break(())
            }
        })?;
        result
    }

    fn load_meta_row(&mut self, key: &[u8], value: &[u8]) -> Result<(), Damaged> {
        match MetaKey::decode(key)? {
            MetaKey::Applied => self.applied = Some(decode_position(value)?),
            MetaKey::Membership => self.membership = Some(Bytes::copy_from_slice(value)),
            MetaKey::Revision => (self.revision, self.stamp) = decode_newest(value)?,
            MetaKey::Compacted => self.compacted = unzigzag(decode_number(value)?),
            MetaKey::Collected => {} // the collector reads it itself
            MetaKey::Alarm(member, kind) => {
                let kind = AlarmKind::from_code(kind).ok_or(Damaged { what: "alarm" })?;
                self.alarms.insert(Alarm { member, kind });
            }
            MetaKey::Lease(lease) => {
                let ttl = unzigzag(decode_number(value)?);
                self.leases.insert(lease, Lease { ttl, granted_at: 0, granted_in: 0, keys: BTreeSet::new() });
            }
            MetaKey::Member(member) => {
                let attributes = codec::read_attributes(&mut Bytes::copy_from_slice(value));
                self.members.insert(member, attributes.ok_or(Damaged { what: "member" })?);
            }
            MetaKey::Removed(member) => {
                self.removed.insert(member);
            }
            MetaKey::Expected(member) => {
                self.expected_voters.insert(member);
            }
            MetaKey::Operation(place) => self.operations.load(place, Bytes::copy_from_slice(value))?,
            MetaKey::Second(second) => self.marked = self.marked.max(Some(second)),
        }
        Ok(())
    }

    /// Builds the index from the newest version of each key, which comes first among its versions.
    fn load_keys(&mut self, engine: &dyn Engine) -> Result<(), EngineFailure> {
        let mut previous: Vec<u8> = Vec::new();
        let mut first = true;
        let mut result = Ok(());
        engine.scan(Table::Keys, &[], None, &mut |row, value| {
            let loaded = encoding::split_key_version(row).and_then(|(escaped, id)| {
                if !first && escaped == previous {
                    return Ok(());
                }
                first = false;
                previous.clear();
                previous.extend_from_slice(escaped);
                let version = KeyVersion::decode(id, value)?;
                if !version.deleted {
                    let key = encoding::unescape(escaped);
                    self.index.insert(&key, version.state);
                    if let Some(lease) = self.leases.get_mut(&version.state.lease) {
                        lease.keys.insert(key);
                    }
                }
                Ok(())
            });
            match loaded {
                Ok(()) => ControlFlow::Continue(()),
                Err(damaged) => {
                    result = Err(damaged.into());
                    ControlFlow::Break(())
                }
            }
        })?;
        result
    }

    /// The revision to read at, for one a client asked for.
    pub fn readable(&self, asked: i64) -> Result<Revision, Rejection> {
        if asked <= 0 {
            return Ok(self.revision);
        }
        if asked > self.revision.wire() {
            return Err(Rejection::FutureRevision { newest: self.revision });
        }
        if asked < self.compacted {
            return Err(self.compacted_rejection());
        }
        Ok(Revision::new(asked as u64))
    }

    pub fn compacted_rejection(&self) -> Rejection {
        Rejection::Compacted { oldest: Revision::new(self.compacted.max(0) as u64) }
    }

    /// True if a live key of the range is reserved.
    pub fn reserves(&self, range: &KeyRange) -> bool {
        encoding::reserved_part(range).is_some_and(|part| self.index.count(&part) > 0)
    }

    /// True for the etcd lease of a hold. Clients of etcd's protocol may know of it and do nothing with it: whoever ends,
    /// renews or burdens it has a say in who holds a lease object.
    pub fn is_hold(&self, lease: LeaseId) -> bool {
        self.leases.get(&lease).is_some_and(|lease| {
            let on = (Bound::Included(encoding::RESERVED), Bound::Unbounded);
            let first = lease.keys.range::<[u8], _>(on).next();
            first.is_some_and(|key| encoding::is_reserved(key))
        })
    }

    /// Whether a client of etcd's protocol may attach a key to this lease, if it is one.
    pub fn check_attaching(&self, lease: LeaseId) -> Result<(), Rejection> {
        if lease.is_none() {
            return Ok(());
        }
        if !self.leases.contains_key(&lease) {
            return Err(Rejection::LeaseNotFound);
        }
        if self.is_hold(lease) { Err(Rejection::Reserved) } else { Ok(()) }
    }

    pub fn has_alarm(&self, kind: AlarmKind) -> bool {
        self.alarms.iter().any(|alarm| alarm.kind == kind)
    }
}

pub(super) fn encode_number(value: u64) -> Vec<u8> {
    let mut row = Vec::with_capacity(10);
    put_varint(&mut row, value);
    row
}

pub(super) fn encode_signed(value: i64) -> Vec<u8> {
    encode_number(zigzag(value))
}

fn decode_number(mut row: &[u8]) -> Result<u64, Damaged> {
    get_varint(&mut row).filter(|_| !row.has_remaining()).ok_or(Damaged { what: "number" })
}

pub(super) fn encode_newest(revision: Revision, stamp: Timestamp) -> Vec<u8> {
    let mut row = encode_number(revision.get());
    put_varint(&mut row, stamp.0);
    row
}

/// Rows of earlier versions have no time.
fn decode_newest(mut row: &[u8]) -> Result<(Revision, Timestamp), Damaged> {
    let damaged = || Damaged { what: "number" };
    let revision = get_varint(&mut row).ok_or_else(damaged)?;
    let stamp = if row.has_remaining() { decode_number(row)? } else { 0 };
    Ok((Revision::new(revision), Timestamp(stamp)))
}

pub(super) fn encode_position(position: Position) -> Vec<u8> {
    let mut row = encode_number(position.term);
    put_varint(&mut row, position.index);
    row
}

fn decode_position(mut row: &[u8]) -> Result<Position, Damaged> {
    let damaged = Damaged { what: "log position" };
    let term = get_varint(&mut row);
    let index = get_varint(&mut row);
    term.zip(index).map(|(term, index)| Position { term, index }).ok_or(damaged)
}

pub(super) fn encode_attributes(attributes: &MemberAttributes) -> Vec<u8> {
    let mut row = BytesMut::new();
    codec::put_attributes(&mut row, attributes);
    row.to_vec()
}
