//! A process that is killed while it commits leaves each commit whole or not there at all.
//!
//! A commit touches objects, a ledger, a reservation, a lease, the window of operations and the author of each record: rows
//! of all tables, which only a batch keeps together (invariant S5).

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use setpoint_store::command::{Command, Proposal, ProposalId, Range};
use setpoint_store::commit::{Commit, Op, Operation};
use setpoint_store::ledger::{self, Ledger};
use setpoint_store::{
    Amounts, Author, Body, Committed, Entry, Epoch, LeaseName, Position, Response, RocksEngine, RocksOptions,
    Store, Verdict,
};
use setpoint_types::{KeyRange, LeaseId, NodeId, Revision, Timestamp};
use tempfile::TempDir;

const VICTIM_HOME: &str = "SETPOINT_COMMIT_VICTIM";
const LOCAL: NodeId = NodeId(1);
/// Owners among whom the reservations go round.
const OWNERS: u64 = 20;

fn lease() -> LeaseName {
    LeaseName::new("default", "worker")
}

fn object(name: &str) -> Bytes {
    format!("/setpoint.v1/Thing/default/{name}").into()
}

/// Commit `n`, which makes revision `n + 1`: three objects, one reservation, and the lease goes to the next holder.
fn commit(n: u64) -> Commit {
    let amount = Amounts::from([("cpu".to_owned(), n)]);
    let unlimited = Amounts::from([("*".to_owned(), u64::MAX)]);
    let put = |name: &str| {
        let value = n.to_string().repeat(1 + n as usize % 40);
        Op::Put { key: object(name), value: value.into(), lease: LeaseId::NONE }
    };
    let mut ops = vec![put("a"), put("b"), put(&format!("c{}", n % 7))];
    ops.push(Op::Limits { ledger: "node".to_owned(), limits: unlimited });
    ops.push(Op::Reserve { ledger: "node".to_owned(), owner: (n % OWNERS).to_string(), amounts: amount });
    if n > 1 {
        ops.push(Op::Vacate { lease: lease(), epoch: Epoch(n - 1) });
    }
    let (holder, epoch, id) = (n.to_string(), Epoch(n), LeaseId(n as i64));
    ops.push(Op::Hold { lease: lease(), holder, epoch, ttl: 10, id });
    let author = Some(Author { principal: n.to_string(), ..Author::default() });
    let operation = Some(Operation { id: n.to_string().into(), fingerprint: n });
    Commit { operation, author, guards: Vec::new(), ops }
}

fn open(home: &Path) -> Store {
    let options =
        RocksOptions { block_cache_bytes: 1 << 20, row_cache_bytes: 64 << 10, write_buffer_bytes: 128 << 10 };
    let engine = RocksEngine::open(&home.join("tables"), &options).expect("the tables open");
    Store::open(Arc::new(engine)).expect("the state loads")
}

fn apply(store: &Store, commit: Commit) -> Verdict {
    let index = store.applied().position.map_or(0, |position| position.index) + 1;
    let id = ProposalId { node: LOCAL, sequence: index };
    let commands = vec![Proposal { id, command: Command::Commit(Arc::new(commit)) }.encode()];
    let body = Body::Commands { stamp: Timestamp(index * 10), commands };
    let entry = Entry { position: Position { term: 1, index }, body };
    let mut outcome = store.apply(&[entry], LOCAL).expect("the entry applies");
    outcome.verdicts.pop().expect("it was ours").1
}

/// The last commit that was done.
fn last(store: &Store) -> u64 {
    store.revision().get() - 1
}

/// Not a test of its own: the process that the next one kills.
#[test]
fn victim() {
    let Some(home) = std::env::var_os(VICTIM_HOME) else { return };
    let store = open(home.as_ref());
    for n in last(&store) + 1.. {
        apply(&store, commit(n)).expect("nothing stands against it");
        if n.is_multiple_of(100) {
            store.flush().expect("the flush succeeds");
            std::fs::write(Path::new(&home).join("flushed"), n.to_string()).expect("progress is noted");
        }
    }
}

#[test]
fn a_killed_process_leaves_whole_commits() {
    let home = TempDir::new().expect("a temporary directory");
    let mut reached = 0;
    for round in 0..3u64 {
        let mut victim = std::process::Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "victim"])
            .env(VICTIM_HOME, home.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("the victim starts");
        let limit = Instant::now() + Duration::from_secs(60);
        // While it is being written the note may be empty or cut; it only ever grows.
        let flushed = || -> u64 {
            let noted = std::fs::read_to_string(home.path().join("flushed")).ok();
            noted.and_then(|number| number.parse().ok()).unwrap_or(0)
        };
        while flushed() < reached + 200 && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(2 + 3 * round)); // so that it dies at different moments
        }
        victim.kill().expect("the victim dies");
        victim.wait().expect("the victim is gone");
        let store = open(home.path());
        let last = last(&store);
        assert!(last > reached && last >= flushed(), "{last} after {reached}, {} flushed", flushed());
        check(&store, last);
        reached = last;
    }
}

/// The state is that after commit `last`, to the last row.
fn check(store: &Store, last: u64) {
    let read = |key: Bytes| store.range(&Range::latest(KeyRange::Single(key))).expect("it is read").kvs.pop();
    for name in ["a", "b", &format!("c{}", last % 7)] {
        let kv = read(object(name)).expect("it was written");
        assert_eq!(
            (kv.modified, kv.value.starts_with(last.to_string().as_bytes())),
            (store.revision(), true)
        );
    }
    // S19: the sum is that of the reservations, which are those of the last round.
    let used = store.ledger("node").expect("it is read").expect("it exists").used;
    let reservations = store.range(&Range::latest(Ledger::reservations("node"))).expect("they are read").kvs;
    let amounts = reservations.into_iter().map(|kv| ledger::decode_reservation(kv.value).expect("amounts"));
    assert_eq!(used["cpu"], amounts.map(|amounts| amounts["cpu"]).sum::<u64>());
    assert_eq!(used["cpu"], (last.saturating_sub(OWNERS - 1).max(1)..=last).sum::<u64>());
    let state = store.lease_state(&lease()).expect("it is read");
    let hold = state.hold.expect("it is held");
    assert_eq!((state.epoch, hold.epoch, hold.holder), (Epoch(last), Epoch(last), last.to_string()));
    assert_eq!(store.leases(), [(LeaseId(last as i64), 10)]);
    for set in store.changes(store.revision(), usize::MAX).expect("it is kept") {
        let authors = set.records.iter().map(|record| record.author.as_ref().expect("it has one"));
        assert!(authors.map(|author| &author.principal).all(|principal| *principal == last.to_string()));
    }
    // S20: what was done is known, so the commit can be repeated without harm.
    let committed = Committed { revision: store.revision(), changed: true, repeated: true };
    assert_eq!(apply(store, commit(last)), Ok(Response::Commit(committed)));
    assert_eq!(store.revision(), Revision::new(last + 1));
}
