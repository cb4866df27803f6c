//! Commands as the Raft log holds them.
//!
//! A format byte, the proposal's id, a tag and the fields in order; integers are varints, byte strings carry their
//! length. Decoding shares the log entry's buffer. A new field or command takes a new tag: old entries stay readable.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use setpoint_types::{KeyRange, LeaseId, NodeId};

use crate::command::{
    Alarm, AlarmAction, AlarmKind, Bounds, Command, Compare, DeleteRange, MemberAttributes, Operand,
    Operator, Order, Proposal, ProposalId, Put, Range, SortTarget, Txn, TxnOp,
};
use crate::commit_codec;
use crate::varint::{get_varint, put_varint, unzigzag, zigzag};

/// A command in the log cannot be read: it is damaged, or a newer version wrote it.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a command in the log cannot be read; was it written by a newer version?")]
pub struct Unreadable;

const FORMAT: u8 = 1;
/// A damaged entry must not exhaust the stack. Clients get no deeper: each of their 128 operations may be a transaction
/// around the next, and the innermost may be empty.
const DEPTH_MAX: usize = 129;

impl Proposal {
    pub fn encode(&self) -> Bytes {
        Self::encode_of(self.id, &self.command)
    }

    /// The same for a command that somebody keeps: it may have to be proposed again, under another id.
    pub fn encode_of(id: ProposalId, command: &Command) -> Bytes {
        let mut out = BytesMut::with_capacity(64 + size_hint(command));
        out.put_u8(FORMAT);
        out.put_u64_le(id.node.0);
        out.put_u64_le(id.sequence);
        put_command(&mut out, command);
        out.freeze()
    }

    pub fn decode(mut bytes: Bytes) -> Result<Self, Unreadable> {
        read_proposal(&mut bytes).filter(|_| bytes.is_empty()).ok_or(Unreadable)
    }
}

fn size_hint(command: &Command) -> usize {
    match command {
        Command::Put(put) => put.key.len() + put.value.len(),
        Command::Txn(txn) => {
            let put_sizes =
                |op: &TxnOp| if let TxnOp::Put(put) = op { put.key.len() + put.value.len() } else { 64 };
            txn.compares.len() * 64 + txn.success.iter().chain(&txn.failure).map(put_sizes).sum::<usize>()
        }
        Command::Commit(commit) => commit_codec::size_hint(commit),
        _ => 64,
    }
}

fn read_proposal(input: &mut Bytes) -> Option<Proposal> {
    (input.try_get_u8().ok()? == FORMAT).then_some(())?;
    let id =
        ProposalId { node: NodeId(input.try_get_u64_le().ok()?), sequence: input.try_get_u64_le().ok()? };
    Some(Proposal { id, command: read_command(input)? })
}

fn put_command(out: &mut BytesMut, command: &Command) {
    match command {
        Command::Put(put) => {
            out.put_u8(1);
            put_put(out, put);
        }
        Command::DeleteRange(delete) => {
            out.put_u8(2);
            put_delete(out, delete);
        }
        Command::Txn(txn) => {
            out.put_u8(3);
            put_txn(out, txn);
        }
        Command::Compact { revision } => {
            out.put_u8(4);
            put_signed(out, *revision);
        }
        Command::LeaseGrant { lease, ttl } => {
            out.put_u8(5);
            put_signed(out, lease.0);
            put_signed(out, *ttl);
        }
        Command::LeaseRevoke { lease } => {
            out.put_u8(6);
            put_signed(out, lease.0);
        }
        Command::LeaseExpire { lease, term } => {
            out.put_u8(10);
            put_signed(out, lease.0);
            put_varint(out, *term);
        }
        Command::ExpectVoter { member } => {
            out.put_u8(11);
            out.put_u64_le(member.0);
        }
        Command::Alarm { action, alarm } => {
            out.put_u8(7);
            out.put_u8(matches!(action, AlarmAction::Activate).into());
            out.put_u64_le(alarm.member.0);
            out.put_u8(alarm.kind as u8);
        }
        Command::PublishMember { member, attributes } => {
            out.put_u8(8);
            out.put_u64_le(member.0);
            put_attributes(out, attributes);
        }
        Command::RemoveMember { member } => {
            out.put_u8(9);
            out.put_u64_le(member.0);
        }
        Command::Commit(commit) => {
            out.put_u8(12);
            commit_codec::put_commit(out, commit);
        }
    }
}

fn read_command(input: &mut Bytes) -> Option<Command> {
    Some(match input.try_get_u8().ok()? {
        1 => Command::Put(read_put(input)?),
        2 => Command::DeleteRange(read_delete(input)?),
        3 => Command::Txn(read_txn(input, DEPTH_MAX)?),
        4 => Command::Compact { revision: read_signed(input)? },
        5 => Command::LeaseGrant { lease: LeaseId(read_signed(input)?), ttl: read_signed(input)? },
        6 => Command::LeaseRevoke { lease: LeaseId(read_signed(input)?) },
        7 => {
            let action = if read_bool(input)? { AlarmAction::Activate } else { AlarmAction::Deactivate };
            let member = NodeId(input.try_get_u64_le().ok()?);
            Command::Alarm {
                action,
                alarm: Alarm { member, kind: AlarmKind::from_code(input.try_get_u8().ok()?)? },
            }
        }
        8 => Command::PublishMember {
            member: NodeId(input.try_get_u64_le().ok()?),
            attributes: read_attributes(input)?,
        },
        9 => Command::RemoveMember { member: NodeId(input.try_get_u64_le().ok()?) },
        10 => Command::LeaseExpire { lease: LeaseId(read_signed(input)?), term: get_varint(input)? },
        11 => Command::ExpectVoter { member: NodeId(input.try_get_u64_le().ok()?) },
        12 => Command::Commit(Arc::new(commit_codec::read_commit(input)?)),
        _ => return None,
    })
}

/// Also the encoding of the attributes' row in the `Meta` table.
pub(crate) fn put_attributes(out: &mut BytesMut, attributes: &MemberAttributes) {
    put_bytes(out, attributes.name.as_bytes());
    put_varint(out, attributes.client_urls.len() as u64);
    for url in &attributes.client_urls {
        put_bytes(out, url.as_bytes());
    }
}

pub(crate) fn read_attributes(input: &mut Bytes) -> Option<MemberAttributes> {
    let name = read_string(input)?;
    let urls = get_varint(input)?;
    let client_urls = (0..urls).map(|_| read_string(input)).collect::<Option<_>>()?;
    Some(MemberAttributes { name, client_urls })
}

fn put_put(out: &mut BytesMut, put: &Put) {
    out.put_u8(u8::from(put.want_previous) | u8::from(put.keep_value) << 1 | u8::from(put.keep_lease) << 2);
    put_signed(out, put.lease.0);
    put_bytes(out, &put.key);
    put_bytes(out, &put.value);
}

fn read_put(input: &mut Bytes) -> Option<Put> {
    let flags = input.try_get_u8().ok()?;
    Some(Put {
        want_previous: flags & 1 != 0,
        keep_value: flags & 2 != 0,
        keep_lease: flags & 4 != 0,
        lease: LeaseId(read_signed(input)?),
        key: read_bytes(input)?,
        value: read_bytes(input)?,
    })
}

fn put_delete(out: &mut BytesMut, delete: &DeleteRange) {
    out.put_u8(delete.want_previous.into());
    put_range(out, &delete.range);
}

fn read_delete(input: &mut Bytes) -> Option<DeleteRange> {
    Some(DeleteRange { want_previous: read_bool(input)?, range: read_range(input)? })
}

fn put_read(out: &mut BytesMut, read: &Range) {
    put_range(out, &read.range);
    out.put_u8(u8::from(read.keys_only) | u8::from(read.count_only) << 1);
    out.put_u8(read.order as u8);
    out.put_u8(read.by as u8);
    let Bounds { modified_min, modified_max, created_min, created_max } = read.bounds;
    for number in [read.limit, read.revision, modified_min, modified_max, created_min, created_max] {
        put_signed(out, number);
    }
}

fn read_read(input: &mut Bytes) -> Option<Range> {
    let range = read_range(input)?;
    let flags = input.try_get_u8().ok()?;
    let order = match input.try_get_u8().ok()? {
        0 => Order::Unspecified,
        1 => Order::Ascending,
        2 => Order::Descending,
        _ => return None,
    };
    let by = match input.try_get_u8().ok()? {
        0 => SortTarget::Key,
        1 => SortTarget::Version,
        2 => SortTarget::Created,
        3 => SortTarget::Modified,
        4 => SortTarget::Value,
        _ => return None,
    };
    let (limit, revision) = (read_signed(input)?, read_signed(input)?);
    let bounds = Bounds {
        modified_min: read_signed(input)?,
        modified_max: read_signed(input)?,
        created_min: read_signed(input)?,
        created_max: read_signed(input)?,
    };
    let (keys_only, count_only) = (flags & 1 != 0, flags & 2 != 0);
    Some(Range { range, limit, revision, order, by, keys_only, count_only, bounds })
}

fn put_txn(out: &mut BytesMut, txn: &Txn) {
    put_varint(out, txn.compares.len() as u64);
    for compare in &txn.compares {
        put_compare(out, compare);
    }
    for branch in [&txn.success, &txn.failure] {
        put_varint(out, branch.len() as u64);
        for op in branch {
            put_op(out, op);
        }
    }
}

fn read_txn(input: &mut Bytes, depth: usize) -> Option<Txn> {
    let depth = depth.checked_sub(1)?;
    let compares = get_varint(input)?;
    let compares = (0..compares).map(|_| read_compare(input)).collect::<Option<_>>()?;
    let success = get_varint(input)?;
    let success = (0..success).map(|_| read_op(input, depth)).collect::<Option<_>>()?;
    let failure = get_varint(input)?;
    let failure = (0..failure).map(|_| read_op(input, depth)).collect::<Option<_>>()?;
    Some(Txn { compares, success, failure })
}

fn put_op(out: &mut BytesMut, op: &TxnOp) {
    match op {
        TxnOp::Range(read) => {
            out.put_u8(1);
            put_read(out, read);
        }
        TxnOp::Put(put) => {
            out.put_u8(2);
            put_put(out, put);
        }
        TxnOp::DeleteRange(delete) => {
            out.put_u8(3);
            put_delete(out, delete);
        }
        TxnOp::Txn(txn) => {
            out.put_u8(4);
            put_txn(out, txn);
        }
    }
}

fn read_op(input: &mut Bytes, depth: usize) -> Option<TxnOp> {
    Some(match input.try_get_u8().ok()? {
        1 => TxnOp::Range(read_read(input)?),
        2 => TxnOp::Put(read_put(input)?),
        3 => TxnOp::DeleteRange(read_delete(input)?),
        4 => TxnOp::Txn(read_txn(input, depth)?),
        _ => return None,
    })
}

fn put_compare(out: &mut BytesMut, compare: &Compare) {
    put_range(out, &compare.range);
    out.put_u8(compare.operator as u8);
    let (tag, number) = match &compare.operand {
        Operand::Version(number) => (0, *number),
        Operand::Created(number) => (1, *number),
        Operand::Modified(number) => (2, *number),
        Operand::Lease(number) => (3, *number),
        Operand::Value(value) => {
            out.put_u8(4);
            return put_bytes(out, value);
        }
        Operand::Unknown => (5, 0),
    };
    out.put_u8(tag);
    put_signed(out, number);
}

fn read_compare(input: &mut Bytes) -> Option<Compare> {
    let range = read_range(input)?;
    let operator = match input.try_get_u8().ok()? {
        0 => Operator::Equal,
        1 => Operator::Greater,
        2 => Operator::Less,
        3 => Operator::NotEqual,
        4 => Operator::Unknown,
        _ => return None,
    };
    let operand = match input.try_get_u8().ok()? {
        0 => Operand::Version(read_signed(input)?),
        1 => Operand::Created(read_signed(input)?),
        2 => Operand::Modified(read_signed(input)?),
        3 => Operand::Lease(read_signed(input)?),
        4 => Operand::Value(read_bytes(input)?),
        5 => {
            read_signed(input)?;
            Operand::Unknown
        }
        _ => return None,
    };
    Some(Compare { range, operator, operand })
}

pub(crate) fn put_range(out: &mut BytesMut, range: &KeyRange) {
    let (tag, start) = match range {
        KeyRange::Single(key) => (0, key),
        KeyRange::Span { start, .. } => (1, start),
        KeyRange::From(start) => (2, start),
    };
    out.put_u8(tag);
    put_bytes(out, start);
    if let KeyRange::Span { end, .. } = range {
        put_bytes(out, end);
    }
}

pub(crate) fn read_range(input: &mut Bytes) -> Option<KeyRange> {
    let tag = input.try_get_u8().ok()?;
    let start = read_bytes(input)?;
    match tag {
        0 => Some(KeyRange::Single(start)),
        1 => Some(KeyRange::Span { start, end: read_bytes(input)? }),
        2 => Some(KeyRange::From(start)),
        _ => None,
    }
}

pub(crate) fn put_bytes(out: &mut impl BufMut, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.put_slice(bytes);
}

pub(crate) fn read_bytes(input: &mut Bytes) -> Option<Bytes> {
    let length = usize::try_from(get_varint(input)?).ok()?;
    (length <= input.len()).then(|| input.split_to(length))
}

pub(crate) fn skip_bytes(input: &mut impl Buf) -> Option<()> {
    let length = usize::try_from(get_varint(input)?).ok()?;
    (length <= input.remaining()).then(|| input.advance(length))
}

pub(crate) fn read_string(input: &mut Bytes) -> Option<String> {
    String::from_utf8(read_bytes(input)?.to_vec()).ok()
}

pub(crate) fn put_signed(out: &mut impl BufMut, value: i64) {
    put_varint(out, zigzag(value));
}

pub(crate) fn read_signed(input: &mut Bytes) -> Option<i64> {
    get_varint(input).map(unzigzag)
}

pub(crate) fn read_byte(input: &mut impl Buf) -> Option<u8> {
    input.try_get_u8().ok()
}

pub(crate) fn read_bool(input: &mut impl Buf) -> Option<bool> {
    read_byte(input).map(|byte| byte != 0)
}
