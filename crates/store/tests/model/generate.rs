//! Random commands and reads over few keys, so that they meet.
//!
//! Revisions are drawn as tokens and become numbers only when the command's turn has come (`resolve`): most then name a
//! kept revision, and some the first compacted or the first future one.

use std::sync::Arc;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use setpoint_store::command::{
    Alarm, AlarmAction, AlarmKind, Bounds, Command, Compare, DeleteRange, MemberAttributes, Operand,
    Operator, Order, Put, Range, SortTarget, Txn, TxnOp,
};
use setpoint_types::{KeyRange, LeaseId, NodeId};

use crate::commits;
use crate::model::Model;

/// Neighbours that a wrong escape or bound would confuse.
const KEYS: [&[u8]; 11] =
    [b"\0", b"a", b"a\0", b"a\0\0", b"a\0\xff", b"aa", b"b", b"b\xff", b"c", b"\xff\xff", b"/setpoint.v1/a"];
const VALUES: [&[u8]; 4] = [b"", b"x", b"y", &[0xff; 300]];
/// The last two are also those of lease objects.
const LEASES: [i64; 5] = [1, 2, -3, 11, 12];

pub fn key() -> impl Strategy<Value = Bytes> {
    prop::sample::select(&KEYS[..]).prop_map(Bytes::from_static)
}

fn value() -> impl Strategy<Value = Bytes> {
    prop::sample::select(&VALUES[..]).prop_map(Bytes::from_static)
}

fn lease() -> impl Strategy<Value = LeaseId> {
    prop::sample::select(&LEASES[..]).prop_map(LeaseId)
}

fn range() -> impl Strategy<Value = KeyRange> {
    prop_oneof![
        4 => key().prop_map(KeyRange::Single),
        3 => (key(), key()).prop_map(|(start, end)| KeyRange::Span { start, end }),
        1 => key().prop_map(KeyRange::From),
        1 => Just(KeyRange::From(Bytes::new())),
    ]
}

/// See [`revision`].
pub fn token() -> impl Strategy<Value = i64> {
    prop_oneof![3 => Just(0), 2 => 1i64..=4, 3 => 5i64..15, 4 => 15i64..1000]
}

/// The revision a token stands for, now.
pub fn revision(model: &Model, token: i64) -> i64 {
    let (newest, oldest) = (model.revision().wire(), model.compacted.max(1));
    match token {
        0 => 0,
        1 => -1,
        2 => newest + 1,
        3 => model.compacted - 1,
        4 => model.compacted,
        // Recent ones, which may be of the same chunk.
        token @ 5..15 => (newest - (token - 5)).max(oldest),
        token => oldest + token % (newest - oldest + 1),
    }
}

fn put() -> impl Strategy<Value = Put> {
    let lease = prop_oneof![3 => Just(LeaseId::NONE), 2 => lease()];
    let rarely = || prop::bool::weighted(0.15);
    (key(), value(), lease, any::<bool>(), rarely(), rarely()).prop_map(
        |(key, value, lease, want_previous, keep_value, keep_lease)| {
            // The interface refuses a value or lease beside the flag that keeps the old one.
            let value = if keep_value { Bytes::new() } else { value };
            let lease = if keep_lease { LeaseId::NONE } else { lease };
            Put { key, value, lease, want_previous, keep_value, keep_lease }
        },
    )
}

fn delete() -> impl Strategy<Value = DeleteRange> {
    (range(), any::<bool>()).prop_map(|(range, want_previous)| DeleteRange { range, want_previous })
}

pub fn read() -> impl Strategy<Value = Range> {
    let bound = || prop_oneof![5 => Just(0), 1 => token()];
    let order = prop::sample::select(vec![Order::Unspecified, Order::Ascending, Order::Descending]);
    let by = prop_oneof![
        4 => Just(SortTarget::Key),
        1 => Just(SortTarget::Version),
        1 => Just(SortTarget::Created),
        1 => Just(SortTarget::Modified),
        1 => Just(SortTarget::Value),
    ];
    let flags = (prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    (range(), -1i64..8, token(), order, by, flags, (bound(), bound(), bound(), bound())).prop_map(
        |(range, limit, revision, order, by, (keys_only, count_only), bounds)| {
            let (modified_min, modified_max, created_min, created_max) = bounds;
            let bounds = Bounds { modified_min, modified_max, created_min, created_max };
            Range { range, limit, revision, order, by, keys_only, count_only, bounds }
        },
    )
}

fn compare() -> impl Strategy<Value = Compare> {
    let operator = prop_oneof![
        4 => Just(Operator::Equal),
        2 => Just(Operator::Greater),
        2 => Just(Operator::Less),
        2 => Just(Operator::NotEqual),
        1 => Just(Operator::Unknown),
    ];
    let operand = prop_oneof![
        (0i64..4).prop_map(Operand::Version),
        (0i64..3).prop_map(Operand::Created),
        (0i64..3).prop_map(Operand::Modified),
        prop::sample::select(vec![0, 1, 2, -3]).prop_map(Operand::Lease),
        value().prop_map(Operand::Value),
        Just(Operand::Unknown),
    ];
    (range(), operator, operand).prop_map(|(range, operator, operand)| Compare { range, operator, operand })
}

/// A transaction up to three deep.
fn txn(writes: bool) -> impl Strategy<Value = Txn> {
    let leaf = if writes {
        prop_oneof![
            2 => read().prop_map(TxnOp::Range),
            3 => put().prop_map(TxnOp::Put),
            2 => delete().prop_map(TxnOp::DeleteRange),
        ]
        .boxed()
    } else {
        read().prop_map(TxnOp::Range).boxed()
    };
    let level = |op: BoxedStrategy<TxnOp>| {
        (vec(compare(), 0..3), vec(op.clone(), 0..4), vec(op, 0..4))
            .prop_map(|(compares, success, failure)| Txn { compares, success, failure })
    };
    let inner = leaf.prop_recursive(2, 12, 4, move |op| level(op).prop_map(TxnOp::Txn).boxed());
    level(inner.boxed()).prop_map(|mut txn| {
        forbid_duplicates(&mut txn, &mut Written::default());
        txn
    })
}

pub fn read_only_txn() -> impl Strategy<Value = Txn> {
    txn(false)
}

/// What the branches around an operation put and delete.
#[derive(Clone, Default)]
struct Written {
    puts: Vec<Bytes>,
    deletes: Vec<KeyRange>,
}

/// Drops what the interface refuses: a key put twice, or put and deleted, on one path. The two branches of a nested
/// transaction exclude each other, so they may put the same key.
fn forbid_duplicates(txn: &mut Txn, written: &mut Written) {
    let mut after = written.clone();
    for branch in [&mut txn.success, &mut txn.failure] {
        let mut taken = written.clone();
        branch.retain_mut(|op| match op {
            TxnOp::Range(_) => true,
            TxnOp::Put(put) => {
                let free = !taken.puts.contains(&put.key)
                    && !taken.deletes.iter().any(|deleted| deleted.contains(&put.key));
                taken.puts.push(put.key.clone());
                free
            }
            TxnOp::DeleteRange(delete) => {
                let free = !taken.puts.iter().any(|key| delete.range.contains(key));
                if free {
                    taken.deletes.push(delete.range.clone());
                }
                free
            }
            TxnOp::Txn(inner) => {
                forbid_duplicates(inner, &mut taken);
                true
            }
        });
        after.puts.extend(taken.puts);
        after.deletes.extend(taken.deletes);
    }
    *written = after;
}

fn member() -> impl Strategy<Value = NodeId> {
    (1u64..4).prop_map(NodeId)
}

fn alarm() -> impl Strategy<Value = Command> {
    let kind = prop_oneof![3 => Just(AlarmKind::NoSpace), 1 => Just(AlarmKind::Corrupt)];
    let action = prop_oneof![1 => Just(AlarmAction::Activate), 5 => Just(AlarmAction::Deactivate)];
    // One member, so that what is raised is also cleared.
    (action, kind)
        .prop_map(|(action, kind)| Command::Alarm { action, alarm: Alarm { member: NodeId(1), kind } })
}

pub fn command() -> impl Strategy<Value = Command> {
    let attributes = "[a-z]{0,3}".prop_map(|name| MemberAttributes { client_urls: vec![name.clone()], name });
    prop_oneof![
        30 => put().prop_map(Command::Put),
        12 => delete().prop_map(Command::DeleteRange),
        24 => txn(true).prop_map(Command::Txn),
        40 => commits::commit().prop_map(|commit| Command::Commit(Arc::new(commit))),
        8 => token().prop_map(|revision| Command::Compact { revision }),
        8 => (lease(), 1i64..100).prop_map(|(lease, ttl)| Command::LeaseGrant { lease, ttl }),
        4 => lease().prop_map(|lease| Command::LeaseRevoke { lease }),
        3 => (lease(), 0u64..4).prop_map(|(lease, term)| Command::LeaseExpire { lease, term }),
        4 => alarm(),
        2 => (member(), attributes)
            .prop_map(|(member, attributes)| Command::PublishMember { member, attributes }),
        1 => member().prop_map(|member| Command::RemoveMember { member }),
        1 => member().prop_map(|member| Command::ExpectVoter { member }),
    ]
}

/// Turns the tokens of a command, in an entry of this term, into revisions and terms.
pub fn resolve(model: &Model, mut command: Command, now: u64) -> Command {
    match &mut command {
        Command::Txn(txn) => resolve_txn(model, txn),
        Command::Commit(commit) => commits::resolve(model, Arc::make_mut(commit), now),
        // Mostly the right term, sometimes the next.
        Command::LeaseExpire { term, .. } => *term = now + *term / 3,
        Command::Compact { revision: token } => *token = revision(model, *token),
        _ => {}
    }
    command
}

pub fn resolve_txn(model: &Model, txn: &mut Txn) {
    for compare in &mut txn.compares {
        // Around the number of a key in the range, so that each operator sometimes holds.
        let first = model.now().values().find(|version| compare.range.contains(&version.kv.key));
        let near = |number: i64, offset: i64| number + offset - 1;
        match &mut compare.operand {
            Operand::Created(token) => *token = near(first.map_or(0, |it| it.kv.created.wire()), *token),
            Operand::Modified(token) => *token = near(first.map_or(0, |it| it.kv.modified.wire()), *token),
            _ => {}
        }
    }
    for op in txn.success.iter_mut().chain(&mut txn.failure) {
        match op {
            TxnOp::Range(read) => resolve_read(model, read),
            TxnOp::Txn(inner) => resolve_txn(model, inner),
            TxnOp::Put(_) | TxnOp::DeleteRange(_) => {}
        }
    }
}

pub fn resolve_read(model: &Model, read: &mut Range) {
    let Bounds { modified_min, modified_max, created_min, created_max } = &mut read.bounds;
    for token in [&mut read.revision, modified_min, modified_max, created_min, created_max] {
        *token = revision(model, *token);
    }
}
