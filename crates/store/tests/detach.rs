//! Making a state the beginning of another cluster's: the data stays, the old cluster goes.

use std::sync::Arc;

use bytes::Bytes;
use setpoint_store::command::{
    Alarm, AlarmAction, AlarmKind, Command, MemberAttributes, Proposal, ProposalId, Put, Range,
};
use setpoint_store::commit::{Commit, Op, Operation};
use setpoint_store::{Applied, Body, Committed, Entry, MemoryEngine, Position, Response, Store};
use setpoint_types::{KeyRange, LeaseId, NodeId, Timestamp};

fn entry(index: u64, commands: Vec<Command>) -> Entry {
    let id = ProposalId { node: NodeId(1), sequence: index };
    let commands = commands.into_iter().map(|command| Proposal { id, command }.encode()).collect();
    Entry { position: Position { term: 2, index }, body: Body::Commands { stamp: Timestamp(0), commands } }
}

fn put(key: &'static str) -> Command {
    let (key, value) = (Bytes::from_static(key.as_bytes()), Bytes::from_static(b"1"));
    Command::Put(Put { key, value, lease: LeaseId(7), ..Put::default() })
}

fn commit() -> Command {
    let operation = Some(Operation { id: Bytes::from_static(b"one"), fingerprint: 1 });
    let (key, value) = (Bytes::from_static(b"/setpoint.v1/a"), Bytes::from_static(b"1"));
    let ops = vec![Op::Put { key, value, lease: LeaseId::NONE }];
    Command::Commit(Arc::new(Commit { operation, ops, ..Commit::default() }))
}

#[test]
fn keys_history_and_leases_stay_and_log_members_and_alarms_go() {
    let engine = Arc::new(MemoryEngine::new());
    let store = Store::open(engine.clone()).expect("nothing loads");
    let position = Position { term: 2, index: 9 };
    let membership = Entry { position, body: Body::Membership(Bytes::from_static(b"old")) };
    let alarm = Alarm { member: NodeId(1), kind: AlarmKind::NoSpace };
    let grant = Command::LeaseGrant { lease: LeaseId(7), ttl: 60 };
    let data = vec![grant, put("a"), put("b"), put("a"), commit()];
    let cluster = vec![
        Command::Compact { revision: 3 },
        Command::PublishMember { member: NodeId(1), attributes: MemberAttributes::default() },
        Command::ExpectVoter { member: NodeId(2) },
        Command::RemoveMember { member: NodeId(3) },
        Command::Alarm { action: AlarmAction::Activate, alarm },
    ];
    store.apply(&[membership, entry(10, data), entry(11, cluster)], NodeId(1)).expect("the entries apply");
    assert_eq!(Store::inspect(&*engine).expect("the position is read"), store.applied());
    assert!(store.applied().position.is_some() && store.applied().membership.is_some());

    Store::detach(&*engine).expect("the state is detached");
    let detached = Store::open(Arc::new(engine.crash())).expect("what was flushed loads");
    assert_eq!(detached.applied(), Applied::default());
    assert_eq!(Store::inspect(&*engine).expect("the position is read"), Applied::default());
    assert!(detached.members().is_empty() && detached.expected_voters().is_empty());
    assert!(detached.alarms().is_empty() && !detached.was_removed(NodeId(3)));
    let all = Range::latest(KeyRange::From(Bytes::new()));
    assert_eq!(detached.range(&all).expect("it is read"), store.range(&all).expect("it is read"));
    assert_eq!(detached.hash(0).expect("it is hashed"), store.hash(0).expect("it is hashed"));
    let lease = |store: &Store| store.lease(LeaseId(7)).map(|lease| (lease.ttl, lease.keys));
    assert_eq!(lease(&detached), lease(&store));

    // Another log goes on from there, wherever it begins, and knows what was done.
    let outcome =
        detached.apply(&[entry(1, vec![commit(), put("c")])], NodeId(1)).expect("the entry applies");
    let committed = Committed { revision: store.revision(), changed: true, repeated: true };
    assert_eq!(outcome.verdicts[0].1, Ok(Response::Commit(committed)));
    assert_eq!(detached.revision(), store.revision().successor());
}
