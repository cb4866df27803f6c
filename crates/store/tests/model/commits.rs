//! Random commits over few objects, ledgers, leases and operation ids, so that they meet.
//!
//! Revisions, epochs and terms are drawn as small offsets, and become numbers only when the commit's turn has come: most
//! are then right.

use bytes::Bytes;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use setpoint_store::commit::{Commit, Evenness, Guard, Op, Operation};
use setpoint_store::{Amounts, Author, Epoch, Fence, LeaseName};
use setpoint_types::{KeyRange, LeaseId, Revision, Timestamp};

use crate::model::Model;

const KEYS: [&[u8]; 5] =
    [b"/setpoint.v1/a", b"/setpoint.v1/b", b"/setpoint.v1/c", b"a", b"/setpoint.ledger/n"];
const LEDGERS: [&str; 4] = ["n", "n/o", "%", "s"];
const HOLDS: [i64; 4] = [11, 12, 13, 1];

pub fn key() -> impl Strategy<Value = Bytes> {
    prop::sample::select(&KEYS[..]).prop_map(Bytes::from_static)
}

pub fn ledger() -> impl Strategy<Value = String> {
    prop::sample::select(&LEDGERS[..]).prop_map(str::to_owned)
}

pub fn lease_name() -> impl Strategy<Value = LeaseName> {
    prop::sample::select(vec![("", "l"), ("s", "l")]).prop_map(|(space, name)| LeaseName::new(space, name))
}

fn amounts() -> impl Strategy<Value = Amounts> {
    let amount = prop_oneof![12 => 0u64..5, 1 => Just(u64::MAX)];
    btree_map(prop::sample::select(vec!["c", "m"]).prop_map(str::to_owned), amount, 0..3)
}

fn limits() -> impl Strategy<Value = Amounts> {
    let limit = prop_oneof![6 => 0u64..12, 1 => Just(u64::MAX)];
    btree_map(prop::sample::select(vec!["c", "m", "*"]).prop_map(str::to_owned), limit, 0..4)
}

/// Mostly right: see [`resolve`].
fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![9 => Just(1u64), 1 => 0u64..3]
}

fn guard() -> impl Strategy<Value = Guard> {
    prop_oneof![
        3 => (key(), offset()).prop_map(|(key, offset)| Guard::Revision { key, revision: Revision::new(offset) }),
        2 => (lease_name(), offset()).prop_map(|(lease, offset)| Guard::Fence(Fence { lease, epoch: Epoch(offset) })),
        1 => (ledger(), amounts()).prop_map(|(ledger, amounts)| Guard::Headroom { ledger, amounts }),
        1 => offset().prop_map(Guard::Term),
        1 => (key(), key()).prop_map(|(start, end)| Guard::Empty(KeyRange::Span { start, end })),
    ]
}

fn domain() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["c", "m", "o"]).prop_map(str::to_owned)
}

fn evenness() -> impl Strategy<Value = Evenness> {
    (0u64..3, vec(domain(), 0..4)).prop_map(|(max_skew, among)| Evenness { max_skew, among })
}

fn op() -> impl Strategy<Value = Op> {
    let lease = prop_oneof![6 => Just(0), 1 => prop::sample::select(&HOLDS[..])].prop_map(LeaseId);
    let owner = || prop::sample::select(vec!["w", "w/x", ""]).prop_map(str::to_owned);
    let (holder, id) = ("[p-q]", prop::sample::select(&HOLDS[..]).prop_map(LeaseId));
    prop_oneof![
        6 => (key(), "[x-z]", lease).prop_map(|(key, value, lease)| Op::Put { key, value: value.into(), lease }),
        2 => key().prop_map(|key| Op::Delete { key }),
        3 => (ledger(), limits()).prop_map(|(ledger, limits)| Op::Limits { ledger, limits }),
        6 => (ledger(), owner(), amounts())
            .prop_map(|(ledger, owner, amounts)| Op::Reserve { ledger, owner, amounts }),
        3 => (ledger(), owner(), amounts())
            .prop_map(|(ledger, owner, amounts)| Op::Count { ledger, owner, amounts }),
        2 => (key(), prop_oneof![0u64..4, Just(u64::MAX)])
            .prop_map(|(key, at)| Op::Stamped { key, value: "<                    >".into(), at }),
        4 => (prop_oneof![3 => Just("s".to_owned()), 1 => ledger()], owner(), domain(), evenness())
            .prop_map(|(ledger, owner, domain, evenness)| Op::Spread { ledger, owner, domain, evenness }),
        2 => (ledger(), owner()).prop_map(|(ledger, owner)| Op::Release { ledger, owner }),
        4 => (lease_name(), holder, offset(), 1i64..9, id).prop_map(|(lease, holder, offset, ttl, id)| {
            Op::Hold { lease, holder, epoch: Epoch(offset), ttl, id }
        }),
        2 => (lease_name(), offset()).prop_map(|(lease, offset)| Op::Vacate { lease, epoch: Epoch(offset) }),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let fingerprint = prop_oneof![6 => Just(0u64), 1 => 1u64..3];
    ("[1-6]", fingerprint).prop_map(|(id, fingerprint)| Operation { id: id.into(), fingerprint })
}

pub fn commit() -> impl Strategy<Value = Commit> {
    let author = option::weighted(0.8, "[a-c]{0,2}");
    (option::of(operation()), author, vec(guard(), 0..3), vec(op(), 0..5)).prop_map(
        |(operation, principal, guards, ops)| {
            let author = principal.map(|principal| Author { principal, ..Author::default() });
            Commit { operation, author, guards, ops }
        },
    )
}

/// Makes offsets of 1 what the state asks for, and lets the author say what the commit carries.
pub fn resolve(model: &Model, commit: &mut Commit, now: u64) {
    let near = |number: u64, offset: u64| (number + offset).saturating_sub(1);
    for guard in &mut commit.guards {
        match guard {
            Guard::Revision { key, revision } => {
                let current = model.now().get(key).map_or(0, |version| version.kv.modified.get());
                *revision = Revision::new(near(current, revision.get()));
            }
            Guard::Fence(fence) => {
                fence.epoch = Epoch(near(model.lease_state(&fence.lease).epoch.0, fence.epoch.0));
            }
            Guard::Headroom { .. } | Guard::Empty(_) => {}
            Guard::Term(term) => *term = near(now, *term),
        }
    }
    // Of a lease that this commit takes and gives back, the later epochs.
    let mut held = 0;
    for op in &mut commit.ops {
        match op {
            Op::Hold { lease, epoch, .. } => {
                *epoch = Epoch(near(model.lease_state(lease).epoch.0 + 1 + held, epoch.0));
                held += 1;
            }
            Op::Vacate { lease, epoch } => {
                *epoch = Epoch(near(model.lease_state(lease).epoch.0 + held, epoch.0));
            }
            _ => {}
        }
    }
    if let Some(author) = &mut commit.author {
        author.fence = commit.guards.iter().find_map(|guard| match guard {
            Guard::Fence(fence) => Some(fence.clone()),
            _ => None,
        });
        let id =
            commit.operation.as_ref().map(|operation| String::from_utf8_lossy(&operation.id).into_owned());
        author.operation = id.unwrap_or_default();
        // Not logged: the state machine knows better.
        author.time = Timestamp::default();
    }
}
