//! Commits as the Raft log holds them: see `codec`.
//!
//! Tags of guards and operations are never given a new meaning; a new one takes a new number.

use bytes::{BufMut, Bytes, BytesMut};
use setpoint_types::{LeaseId, Revision};

use crate::author::Author;
use crate::codec::{
    put_bytes, put_range, put_signed, read_byte, read_bytes, read_range, read_signed, read_string,
};
use crate::commit::{Commit, Evenness, Guard, Op, Operation};
use crate::hold::{Epoch, Fence, LeaseName};
use crate::ledger::{put_amounts, read_amounts};
use crate::varint::{get_varint, put_varint};

const HAS_OPERATION: u8 = 1;
const HAS_AUTHOR: u8 = 2;

pub(crate) fn size_hint(commit: &Commit) -> usize {
    let op_size = |op: &Op| {
        64 + match op {
            Op::Put { key, value, .. } | Op::Stamped { key, value, .. } => key.len() + value.len(),
            _ => 64,
        }
    };
    256 + commit.guards.len() * 96 + commit.ops.iter().map(op_size).sum::<usize>()
}

pub(crate) fn put_commit(out: &mut BytesMut, commit: &Commit) {
    let flag = |there: bool, bit: u8| if there { bit } else { 0 };
    out.put_u8(flag(commit.operation.is_some(), HAS_OPERATION) | flag(commit.author.is_some(), HAS_AUTHOR));
    if let Some(operation) = &commit.operation {
        put_bytes(out, &operation.id);
        out.put_u64_le(operation.fingerprint);
    }
    if let Some(author) = &commit.author {
        author.put(out);
    }
    put_varint(out, commit.guards.len() as u64);
    for guard in &commit.guards {
        put_guard(out, guard);
    }
    put_varint(out, commit.ops.len() as u64);
    for op in &commit.ops {
        put_op(out, op);
    }
}

pub(crate) fn read_commit(input: &mut Bytes) -> Option<Commit> {
    let flags = read_byte(input)?;
    (flags & !(HAS_OPERATION | HAS_AUTHOR) == 0).then_some(())?;
    let operation = if flags & HAS_OPERATION != 0 { Some(read_operation(input)?) } else { None };
    let author = if flags & HAS_AUTHOR != 0 { Some(Author::read(input)?) } else { None };
    let guards = get_varint(input)?;
    let guards = (0..guards).map(|_| read_guard(input)).collect::<Option<_>>()?;
    let ops = get_varint(input)?;
    let ops = (0..ops).map(|_| read_op(input)).collect::<Option<_>>()?;
    Some(Commit { operation, author, guards, ops })
}

fn read_operation(input: &mut Bytes) -> Option<Operation> {
    use bytes::Buf;
    Some(Operation { id: read_bytes(input)?, fingerprint: input.try_get_u64_le().ok()? })
}

fn put_guard(out: &mut BytesMut, guard: &Guard) {
    match guard {
        Guard::Revision { key, revision } => {
            out.put_u8(1);
            put_bytes(out, key);
            put_varint(out, revision.get());
        }
        Guard::Fence(fence) => {
            out.put_u8(2);
            fence.put(out);
        }
        Guard::Headroom { ledger, amounts } => {
            out.put_u8(3);
            put_bytes(out, ledger.as_bytes());
            put_amounts(out, amounts);
        }
        Guard::Term(term) => {
            out.put_u8(4);
            put_varint(out, *term);
        }
        Guard::Empty(range) => {
            out.put_u8(5);
            put_range(out, range);
        }
    }
}

fn read_guard(input: &mut Bytes) -> Option<Guard> {
    Some(match read_byte(input)? {
        1 => Guard::Revision { key: read_bytes(input)?, revision: Revision::new(get_varint(input)?) },
        2 => Guard::Fence(Fence::read(input)?),
        3 => Guard::Headroom { ledger: read_string(input)?, amounts: read_amounts(input)? },
        4 => Guard::Term(get_varint(input)?),
        5 => Guard::Empty(read_range(input)?),
        _ => return None,
    })
}

fn read_evenness(input: &mut Bytes) -> Option<Evenness> {
    let max_skew = get_varint(input)?;
    let count = get_varint(input)?;
    let among = (0..count).map(|_| read_string(input)).collect::<Option<_>>()?;
    Some(Evenness { max_skew, among })
}

fn put_op(out: &mut BytesMut, op: &Op) {
    match op {
        Op::Put { key, value, lease } => {
            out.put_u8(1);
            put_signed(out, lease.0);
            put_bytes(out, key);
            put_bytes(out, value);
        }
        Op::Delete { key } => {
            out.put_u8(2);
            put_bytes(out, key);
        }
        Op::Limits { ledger, limits } => {
            out.put_u8(3);
            put_bytes(out, ledger.as_bytes());
            put_amounts(out, limits);
        }
        Op::Reserve { ledger, owner, amounts } => {
            out.put_u8(4);
            put_bytes(out, ledger.as_bytes());
            put_bytes(out, owner.as_bytes());
            put_amounts(out, amounts);
        }
        Op::Release { ledger, owner } => {
            out.put_u8(5);
            put_bytes(out, ledger.as_bytes());
            put_bytes(out, owner.as_bytes());
        }
        Op::Hold { lease, holder, epoch, ttl, id } => {
            out.put_u8(6);
            lease.put(out);
            put_bytes(out, holder.as_bytes());
            put_varint(out, epoch.0);
            put_signed(out, *ttl);
            put_signed(out, id.0);
        }
        Op::Vacate { lease, epoch } => {
            out.put_u8(7);
            lease.put(out);
            put_varint(out, epoch.0);
        }
        Op::Count { ledger, owner, amounts } => {
            out.put_u8(9);
            put_bytes(out, ledger.as_bytes());
            put_bytes(out, owner.as_bytes());
            put_amounts(out, amounts);
        }
        Op::Stamped { key, value, at } => {
            out.put_u8(10);
            put_varint(out, *at);
            put_bytes(out, key);
            put_bytes(out, value);
        }
        Op::Spread { ledger, owner, domain, evenness } => {
            out.put_u8(8);
            put_bytes(out, ledger.as_bytes());
            put_bytes(out, owner.as_bytes());
            put_bytes(out, domain.as_bytes());
            put_varint(out, evenness.max_skew);
            put_varint(out, evenness.among.len() as u64);
            evenness.among.iter().for_each(|domain| put_bytes(out, domain.as_bytes()));
        }
    }
}

fn read_op(input: &mut Bytes) -> Option<Op> {
    Some(match read_byte(input)? {
        1 => {
            let lease = LeaseId(read_signed(input)?);
            Op::Put { key: read_bytes(input)?, value: read_bytes(input)?, lease }
        }
        2 => Op::Delete { key: read_bytes(input)? },
        3 => Op::Limits { ledger: read_string(input)?, limits: read_amounts(input)? },
        4 => Op::Reserve {
            ledger: read_string(input)?,
            owner: read_string(input)?,
            amounts: read_amounts(input)?,
        },
        5 => Op::Release { ledger: read_string(input)?, owner: read_string(input)? },
        6 => Op::Hold {
            lease: LeaseName::read(input)?,
            holder: read_string(input)?,
            epoch: Epoch(get_varint(input)?),
            ttl: read_signed(input)?,
            id: LeaseId(read_signed(input)?),
        },
        7 => Op::Vacate { lease: LeaseName::read(input)?, epoch: Epoch(get_varint(input)?) },
        8 => Op::Spread {
            ledger: read_string(input)?,
            owner: read_string(input)?,
            domain: read_string(input)?,
            evenness: read_evenness(input)?,
        },
        9 => Op::Count {
            ledger: read_string(input)?,
            owner: read_string(input)?,
            amounts: read_amounts(input)?,
        },
        10 => {
            let at = get_varint(input)?;
            Op::Stamped { key: read_bytes(input)?, value: read_bytes(input)?, at }
        }
        _ => return None,
    })
}
