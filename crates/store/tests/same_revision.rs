//! One revision may change a key twice: etcd lets a transaction put a key and delete everything from it on. Both changes
//! are history, the last one counts, and collection forgets each version once.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use setpoint_store::command::{Command, DeleteRange, Proposal, ProposalId, Put, Range, Txn, TxnOp};
use setpoint_store::engine::Table;
use setpoint_store::{
    Body, Engine, Entry, MemoryEngine, Position, RocksEngine, RocksOptions, StepMax, Store,
};
use setpoint_types::{KeyRange, NodeId, Revision, Timestamp};

const NODE: NodeId = NodeId(1);

fn apply(store: &Store, index: u64, command: Command) {
    let proposal = Proposal { id: ProposalId { node: NODE, sequence: index }, command };
    let body = Body::Commands { stamp: Timestamp(0), commands: vec![proposal.encode()] };
    let entry = Entry { position: Position { term: 1, index }, body };
    let outcome = store.apply(&[entry], NODE).expect("applies");
    assert!(outcome.verdicts.iter().all(|(_, verdict)| verdict.is_ok()), "{:?}", outcome.verdicts);
}

fn put(key: &'static str, value: &'static str) -> Put {
    Put { key: key.into(), value: value.into(), ..Put::default() }
}

fn delete_from(key: &'static str) -> DeleteRange {
    DeleteRange { range: KeyRange::From(key.into()), want_previous: false }
}

fn txn(ops: Vec<TxnOp>) -> Command {
    Command::Txn(Txn { success: ops, ..Txn::default() })
}

fn values(store: &Store, revision: i64) -> Vec<(Bytes, Bytes, u64)> {
    let read = Range { revision, ..Range::latest(KeyRange::From(Bytes::new())) };
    let kvs = store.range(&read).expect("readable").kvs;
    kvs.into_iter().map(|kv| (kv.key, kv.value, kv.version)).collect()
}

fn rows(engine: &dyn Engine, table: Table) -> usize {
    let mut count = 0;
    let mut visit = |_: &[u8], _: &[u8]| {
        count += 1;
        ControlFlow::Continue(())
    };
    engine.scan(table, &[], None, &mut visit).expect("scans");
    count
}

fn check(engine: Arc<dyn Engine>) {
    let store = Store::open(engine.clone()).expect("opens");
    apply(&store, 1, Command::Put(put("a", "1")));
    apply(&store, 2, txn(vec![TxnOp::DeleteRange(delete_from("a")), TxnOp::Put(put("a", "2"))]));
    apply(&store, 3, txn(vec![TxnOp::Put(put("b", "3")), TxnOp::DeleteRange(delete_from("b"))]));
    let both: (Bytes, Bytes, u64) = ("a".into(), "2".into(), 1);
    assert_eq!(values(&store, 0), std::slice::from_ref(&both));
    assert_eq!(values(&store, 2), [("a".into(), "1".into(), 1)]);
    assert_eq!(values(&store, 3), std::slice::from_ref(&both));
    let sizes: Vec<_> =
        store.changes(Revision::new(2), 1 << 20).expect("kept").iter().map(|set| set.records.len()).collect();
    assert_eq!(sizes, [1, 2, 2]);
    apply(&store, 4, Command::Put(put("c", "4")));
    apply(&store, 5, Command::Compact { revision: 5 });
    while !store.collect(StepMax::records(1)).expect("collects").done() {}
    assert_eq!((rows(&*engine, Table::Records), rows(&*engine, Table::Keys)), (2, 2));
    let live = values(&store, 0);
    assert_eq!(live, [both, ("c".into(), "4".into(), 1)]);
    let reopened = Store::open(engine).expect("opens again");
    assert_eq!(values(&reopened, 0), live);
}

#[test]
fn in_memory() {
    check(Arc::new(MemoryEngine::new()));
}

#[test]
fn on_disk() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    check(Arc::new(RocksEngine::open(folder.path(), &RocksOptions::default()).expect("opens")));
}
