//! Whatever differs between two kept histories, their hashes differ. That equal ones agree, `model` checks.

use std::sync::Arc;

use bytes::Bytes;
use setpoint_store::command::{Command, DeleteRange, Proposal, ProposalId, Put, Txn, TxnOp};
use setpoint_store::commit::{Commit, Op};
use setpoint_store::{Author, Body, Entry, HashOfHistory, MemoryEngine, Position, Store};
use setpoint_types::{KeyRange, LeaseId, NodeId, Timestamp};

fn put(key: &'static str, value: &'static str, lease: i64) -> Put {
    Put { key: key.into(), value: value.into(), lease: LeaseId(lease), ..Put::default() }
}

fn delete(key: &'static str) -> Command {
    let range = KeyRange::Single(Bytes::from_static(key.as_bytes()));
    Command::DeleteRange(DeleteRange { range, want_previous: false })
}

fn commit(principal: &str, op: Op) -> Command {
    let author = Some(Author { principal: principal.to_owned(), ..Author::default() });
    Command::Commit(Arc::new(Commit { author, ops: vec![op], ..Commit::default() }))
}

fn both(first: Put, second: Put) -> Command {
    Command::Txn(Txn { success: vec![TxnOp::Put(first), TxnOp::Put(second)], ..Txn::default() })
}

fn hash(commands: Vec<Command>, revision: i64) -> HashOfHistory {
    let local = NodeId(1);
    let store = Store::open(Arc::new(MemoryEngine::new())).expect("nothing loads");
    let leases = [1, 2].map(|id| Command::LeaseGrant { lease: LeaseId(id), ttl: 9 });
    let commands = leases.into_iter().chain(commands).enumerate().map(|(sequence, command)| {
        let id = ProposalId { node: local, sequence: sequence as u64 };
        Proposal { id, command }.encode()
    });
    let body = Body::Commands { stamp: Timestamp(0), commands: commands.collect() };
    let entry = Entry { position: Position { term: 1, index: 1 }, body };
    let outcome = store.apply(&[entry], local).expect("the entry applies");
    assert!(outcome.verdicts.iter().all(|(_, verdict)| verdict.is_ok()), "{:?}", outcome.verdicts);
    store.hash(revision).expect("the revision is kept")
}

const OBJECT: Bytes = Bytes::from_static(b"/setpoint.v1/a");

#[test]
fn every_difference_shows() {
    let object = || Op::Put { key: OBJECT, value: "1".into(), lease: LeaseId::NONE };
    let one = || Command::Put(put("a", "1", 1));
    let histories: Vec<Vec<Command>> = vec![
        vec![],
        vec![one()],
        vec![Command::Put(put("b", "1", 1))],
        vec![Command::Put(put("a", "2", 1))],
        vec![Command::Put(put("a", "1", 2))],
        vec![one(), one()],
        vec![one(), delete("a")],
        vec![Command::Put(put("a", "2", 1)), delete("a")],
        vec![one(), delete("a"), one()],
        vec![one(), Command::Put(put("b", "1", 1))],
        vec![Command::Put(put("b", "1", 1)), one()],
        vec![both(put("a", "1", 0), put("b", "1", 0))],
        vec![both(put("b", "1", 0), put("a", "1", 0))],
        vec![commit("jane", object())],
        vec![commit("joe", object())],
        vec![commit("jane", object()), commit("jane", Op::Delete { key: OBJECT })],
        vec![commit("jane", object()), commit("joe", Op::Delete { key: OBJECT })],
        vec![one(), one(), Command::Compact { revision: 2 }],
        vec![one(), one(), Command::Compact { revision: 3 }],
    ];
    let hashes: Vec<u32> = histories.iter().map(|history| hash(history.clone(), 0).hash).collect();
    for (a, first) in hashes.iter().enumerate() {
        for (b, second) in hashes.iter().enumerate().skip(a + 1) {
            assert_ne!(first, second, "{:?} and {:?}", histories[a], histories[b]);
        }
    }
}

#[test]
fn what_comes_after_a_revision_does_not_change_its_hash() {
    let short = vec![Command::Put(put("a", "1", 0)), Command::Put(put("b", "1", 0))];
    let mut long = short.clone();
    long.extend([Command::Put(put("a", "2", 0)), delete("b"), Command::Put(put("c", "1", 0))]);
    let (short, long) = (hash(short, 3), hash(long, 3));
    assert_eq!((short.hash, short.revision, short.compacted), (long.hash, long.revision, long.compacted));
    assert!(short.newest < long.newest);
}
