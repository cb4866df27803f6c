//! Writers, readers, compaction and collection at once, on disk, for about two seconds.
//!
//! The writer notes what each revision will hold before it applies it. Every answer must be that of its revision as a
//! whole, however many chunks, compactions and deletions of old rows happened while it was put together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::RwLock;
use setpoint_store::command::{Command, DeleteRange, Proposal, ProposalId, Put, Range, Txn, TxnOp};
use setpoint_store::{
    Body, Entry, KeyValue, PageMax, Position, ReadFailure, Rejection, Response, RocksEngine, RocksOptions,
    StepMax, Store,
};
use setpoint_types::{KeyRange, LeaseId, NodeId, Revision, Timestamp};

/// More than the store chooses under its lock, so that both ways to choose keys are taken.
const KEYS: u64 = 2_500;
const LOCAL: NodeId = NodeId(1);

/// What one revision holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Summary {
    keys: u64,
    /// A sum over all keys and the revisions that last changed them.
    digest: u64,
    /// How many changes made it.
    changes: usize,
}

fn fingerprint(key: u64, modified: u64) -> u64 {
    (key << 32 | modified)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Repeatable, and different for each thread.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// The newest, or one that may soon be compacted.
    fn revision(&mut self, shared: &Shared) -> i64 {
        let behind = self.below(60) as i64;
        if self.below(2) == 0 { 0 } else { (shared.store.revision().wire() - behind).max(1) }
    }
}

fn name(key: u64) -> Bytes {
    format!("key/{key:06}").into()
}

fn number(name: &[u8]) -> u64 {
    std::str::from_utf8(&name[4..]).ok().and_then(|digits| digits.parse().ok()).expect("one of our keys")
}

struct Shared {
    store: Store,
    /// By revision, from 1 on.
    summaries: RwLock<Vec<Summary>>,
    stop: AtomicBool,
    answers: AtomicU64,
}

impl Shared {
    fn running(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn summary(&self, revision: Revision) -> Summary {
        self.summaries.read()[revision.get() as usize - 1]
    }

    /// None if a compaction was faster, which is the only excuse.
    fn excused<T>(&self, answer: Result<T, ReadFailure>, revision: i64) -> Option<T> {
        match answer {
            Ok(answer) => {
                self.answers.fetch_add(1, Ordering::Relaxed);
                Some(answer)
            }
            Err(ReadFailure::Rejected(Rejection::Compacted { oldest })) => {
                assert!(revision > 0 && oldest.wire() > revision, "{revision} is not below {oldest}");
                None
            }
            Err(other) => panic!("at {revision}: {other}"),
        }
    }
}

/// The only writer: it knows every key's last change.
struct Writer<'s> {
    shared: &'s Shared,
    modified: Vec<Option<u64>>,
    summary: Summary,
    revision: u64,
    index: u64,
    random: Random,
}

impl Writer<'_> {
    /// Applies a chunk of entries, having noted what its revisions will be.
    fn chunk(&mut self, entries: Vec<Vec<Command>>) {
        let entries: Vec<_> = entries.into_iter().map(|commands| self.entry(commands)).collect();
        let outcome = self.shared.store.apply(&entries, LOCAL).expect("the chunk applies");
        assert!(outcome.verdicts.iter().all(|(_, verdict)| verdict.is_ok()), "{:?}", outcome.verdicts);
        assert_eq!(self.shared.store.revision().get(), self.revision);
    }

    fn entry(&mut self, commands: Vec<Command>) -> Entry {
        self.index += 1;
        let id = ProposalId { node: LOCAL, sequence: self.index };
        let commands = commands.into_iter().map(|command| Proposal { id, command }.encode()).collect();
        let body = Body::Commands { stamp: Timestamp(0), commands };
        Entry { position: Position { term: 1, index: self.index }, body }
    }

    fn put(&mut self, key: u64) -> Command {
        self.revision += 1;
        self.change(key, Some(self.revision));
        self.note(1);
        let value = format!("{key}@{}", self.revision).into();
        Command::Put(Put { key: name(key), value, lease: LeaseId::NONE, ..Put::default() })
    }

    fn delete(&mut self, first: u64, last: u64) -> Command {
        let doomed: Vec<_> = (first..last).filter(|key| self.modified[*key as usize].is_some()).collect();
        if !doomed.is_empty() {
            self.revision += 1;
            doomed.iter().for_each(|key| self.change(*key, None));
            self.note(doomed.len());
        }
        let range = KeyRange::Span { start: name(first), end: name(last) };
        Command::DeleteRange(DeleteRange { range, want_previous: false })
    }

    fn change(&mut self, key: u64, modified: Option<u64>) {
        let old = std::mem::replace(&mut self.modified[key as usize], modified);
        if let Some(old) = old {
            self.summary.keys -= 1;
            self.summary.digest = self.summary.digest.wrapping_sub(fingerprint(key, old));
        }
        if let Some(new) = modified {
            self.summary.keys += 1;
            self.summary.digest = self.summary.digest.wrapping_add(fingerprint(key, new));
        }
    }

    fn note(&mut self, changes: usize) {
        self.summary.changes = changes;
        let mut summaries = self.shared.summaries.write();
        summaries.push(self.summary);
        assert_eq!(summaries.len() as u64, self.revision);
    }

    fn run(mut self) {
        let all: Vec<_> = (0..KEYS).map(|key| self.put(key)).collect();
        self.chunk(vec![all]);
        while self.shared.running() {
            let mut entries = Vec::new();
            for _ in 0..1 + self.random.below(3) {
                let mut commands = Vec::new();
                for _ in 0..1 + self.random.below(8) {
                    let (key, length) = (self.random.below(KEYS), self.random.below(10));
                    commands.push(match self.random.below(20) {
                        0 => self.delete(key, (key + length).min(KEYS)),
                        _ => self.put(key),
                    });
                }
                entries.push(commands);
            }
            // Sometimes right behind the readers, sometimes leaving them room.
            let kept = [3, 40, 400][self.random.below(3) as usize];
            let compacted = self.revision as i64 - kept;
            if self.random.below(4) == 0 && compacted > self.shared.store.compacted() {
                entries.push(vec![Command::Compact { revision: compacted }]);
            }
            self.chunk(entries);
            std::thread::sleep(Duration::from_micros(500)); // leaves the readers time to be overtaken, not outrun
        }
    }
}

fn check_key_value(kv: &KeyValue, newest: Revision) {
    assert!(kv.modified <= newest && kv.created <= kv.modified, "{kv:?} at {newest}");
    assert_eq!(kv.value, format!("{}@{}", number(&kv.key), kv.modified), "{kv:?}");
}

/// The whole range.
fn read_all(shared: &Shared, mut random: Random) {
    while shared.running() {
        let asked = random.revision(shared);
        let read = Range { revision: asked, ..Range::latest(KeyRange::From(Bytes::new())) };
        let Some(answer) = shared.excused(shared.store.range(&read), asked) else { continue };
        let at = if asked == 0 { answer.revision } else { Revision::new(asked as u64) };
        assert!(at <= answer.revision);
        answer.kvs.iter().for_each(|kv| check_key_value(kv, at));
        assert!(answer.kvs.is_sorted_by(|a, b| a.key < b.key));
        assert_eq!(answer.count, answer.kvs.len() as u64);
        let digest = answer.kvs.iter().map(|kv| fingerprint(number(&kv.key), kv.modified.get()));
        let digest = digest.fold(0, u64::wrapping_add);
        let expected = shared.summary(at);
        assert_eq!((answer.count, digest), (expected.keys, expected.digest), "at {at}, asked {asked}");
    }
}

/// The whole range in pieces, while the revision it is read at falls behind.
fn read_pages(shared: &Shared, mut random: Random) {
    while shared.running() {
        let asked = random.revision(shared);
        let read = Range { revision: asked, ..Range::latest(KeyRange::From(Bytes::new())) };
        let Some(mut pages) = shared.excused(shared.store.open_pages(&read), asked) else { continue };
        let at = if asked == 0 { pages.whole().revision } else { Revision::new(asked as u64) };
        let mut found = Summary { changes: shared.summary(at).changes, ..Summary::default() };
        loop {
            let page = shared.store.next_page(&mut pages, PageMax { keys: 300, bytes: 1 << 20 });
            let Some(page) = shared.excused(page, at.wire()) else { break };
            for kv in &page.kvs {
                check_key_value(kv, at);
                found.keys += 1;
                found.digest = found.digest.wrapping_add(fingerprint(number(&kv.key), kv.modified.get()));
            }
            if page.last {
                assert_eq!(found, shared.summary(at), "at {at}, asked {asked}");
                assert_eq!(found.keys, pages.whole().count);
                break;
            }
        }
    }
}

/// Single keys, small pages and counts.
fn read_few(shared: &Shared, mut random: Random) {
    while shared.running() {
        let asked = random.revision(shared);
        let key = name(random.below(KEYS));
        let mut read = Range { revision: asked, ..Range::latest(KeyRange::Single(key)) };
        match random.below(3) {
            0 => {}
            1 => (read.limit, read.range) = (10, KeyRange::From(Bytes::new())),
            _ => (read.count_only, read.range) = (true, KeyRange::From(Bytes::new())),
        }
        let Some(answer) = shared.excused(shared.store.range(&read), asked) else { continue };
        let at = if asked == 0 { answer.revision } else { Revision::new(asked as u64) };
        answer.kvs.iter().for_each(|kv| check_key_value(kv, at));
        if let KeyRange::Single(_) = read.range {
            assert_eq!(answer.count, answer.kvs.len() as u64);
        } else {
            let expected = shared.summary(at).keys;
            let returned = if read.count_only { 0 } else { expected.min(10) };
            assert_eq!((answer.count, answer.kvs.len() as u64), (expected, returned), "at {at}");
        }
    }
}

/// Two halves of the whole range in one transaction: together they are one revision.
fn read_txns(shared: &Shared, mut random: Random) {
    while shared.running() {
        let middle = name(random.below(KEYS));
        let halves = [KeyRange::Span { start: name(0), end: middle.clone() }, KeyRange::From(middle)];
        let success = halves.map(|half| TxnOp::Range(Range::latest(half))).to_vec();
        let txn = Txn { success, ..Txn::default() };
        let Some(answer) = shared.excused(shared.store.read_txn(&txn), 0) else { continue };
        let (mut keys, mut digest) = (0, 0u64);
        for response in &answer.responses {
            let Response::Range(half) = response else { panic!("a range is answered by {response:?}") };
            assert_eq!(half.revision, answer.revision);
            for kv in &half.kvs {
                check_key_value(kv, answer.revision);
                keys += 1;
                digest = digest.wrapping_add(fingerprint(number(&kv.key), kv.modified.get()));
            }
        }
        let expected = shared.summary(answer.revision);
        assert_eq!((keys, digest), (expected.keys, expected.digest), "at {}", answer.revision);
    }
}

/// Follows history, and fetches what each change replaced.
fn follow(shared: &Shared, _: Random) {
    let mut next = Revision::new(2);
    while shared.running() {
        let Some(sets) = shared.excused(shared.store.changes(next, 10_000), next.wire()) else {
            next = Revision::new(shared.store.compacted() as u64);
            continue;
        };
        for set in sets {
            assert_eq!(set.revision, next, "a revision is missing");
            assert_eq!(set.records.len(), shared.summary(next).changes, "at {next}");
            for id in set.records.iter().filter_map(|record| record.replaced) {
                let record = shared.store.record(id).expect("the record is read");
                assert!(
                    record.is_some() || shared.store.compacted() > next.wire(),
                    "{id:?} is gone at {next}"
                );
            }
            next = next.successor();
        }
    }
}

/// A hash of a kept revision is the same whatever is written and collected meanwhile.
fn rehash(shared: &Shared, _: Random) {
    while shared.running() {
        let (revision, compacted) = (shared.store.revision().wire(), shared.store.compacted());
        let Some(first) = shared.excused(shared.store.hash(revision), revision) else { continue };
        let Some(second) = shared.excused(shared.store.hash(revision), revision) else { continue };
        if first.compacted == compacted && second.compacted == compacted {
            assert_eq!(first.hash, second.hash, "at {revision}");
        }
    }
}

fn write(shared: &Shared, random: Random) {
    let modified = vec![None; KEYS as usize];
    Writer { shared, modified, summary: Summary::default(), revision: 1, index: 0, random }.run();
}

fn collect(shared: &Shared, _: Random) {
    while shared.running() {
        shared.store.collect(StepMax::records(200)).expect("the collection goes on");
        std::thread::yield_now();
    }
}

fn wait(shared: &Shared, _: Random) {
    let end = Instant::now() + Duration::from_secs(2);
    while shared.running() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// When one thread ends, the others do: the test is over, or it has failed.
struct StopAll<'s>(&'s AtomicBool);

impl Drop for StopAll<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn every_answer_is_that_of_one_revision_while_everything_happens_at_once() {
    let home = tempfile::TempDir::new().expect("a temporary directory");
    let options =
        RocksOptions { block_cache_bytes: 1 << 20, row_cache_bytes: 64 << 10, write_buffer_bytes: 1 << 20 };
    let engine = RocksEngine::open(home.path(), &options).expect("the tables open");
    let shared = Shared {
        store: Store::open(Arc::new(engine)).expect("the state loads"),
        summaries: RwLock::new(vec![Summary::default()]),
        stop: AtomicBool::new(false),
        answers: AtomicU64::new(0),
    };
    let tasks: [fn(&Shared, Random); 9] =
        [wait, write, collect, read_all, read_pages, read_few, read_txns, follow, rehash];
    std::thread::scope(|scope| {
        for (seed, task) in tasks.into_iter().enumerate() {
            let shared = &shared;
            scope.spawn(move || {
                let _stop = StopAll(&shared.stop);
                task(shared, Random(seed as u64));
            });
        }
    });
    let (answers, revision) = (shared.answers.load(Ordering::Relaxed), shared.store.revision());
    println!("{answers} answers up to revision {revision}, compacted {}", shared.store.compacted());
    assert!(answers > 100 && revision.get() > KEYS && shared.store.compacted() > 0, "too little happened");
}
