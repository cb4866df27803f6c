//! Reads that a compaction and its collection overtake at the worst moment: between choosing keys and reading rows.
//!
//! The engine here does that to them on request. `stress` tries the same with threads and luck.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use setpoint_store::command::{Command, Range};
use setpoint_store::engine::Table;
use setpoint_store::{PageMax, ReadFailure, Rejection, StepMax, Store};
use setpoint_types::{KeyRange, Revision};

use super::watched::{Observer, Watched, apply, put};

/// Which access is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Scan,
    Fetch,
}

type Interruption = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Interrupted {
    armed: Mutex<Option<(Moment, Interruption)>>,
}

impl Interrupted {
    fn reached(&self, moment: Moment) {
        let due = self.armed.lock().take_if(|(armed, _)| *armed == moment);
        if let Some((_, interruption)) = due {
            interruption();
        }
    }
}

impl Observer for Interrupted {
    fn fetch(&self, table: Table) -> bool {
        if table == Table::Records {
            self.reached(Moment::Fetch);
        }
        true
    }

    fn scan(&self) {
        self.reached(Moment::Scan);
    }
}

/// The newest revision before the interruption, and the one it compacts at.
const BEFORE: i64 = 4;
const AFTER: i64 = 6;

/// A store of which the next access of that kind is interrupted: `a` is put twice more, and nothing older is kept.
fn interrupted(moment: Moment) -> Arc<Store> {
    let engine = Arc::new(Watched::<Interrupted>::default());
    let store = Arc::new(Store::open(engine.clone()).expect("nothing loads"));
    for (key, value) in [("a", "1"), ("b", "1"), ("a", "2")] {
        put(&store, key, value);
    }
    assert_eq!(store.revision().wire(), BEFORE);
    let later = Arc::downgrade(&store);
    *engine.observer.armed.lock() = Some((
        moment,
        Box::new(move || {
            let store = later.upgrade().expect("the store is being read");
            put(&store, "a", "3");
            put(&store, "a", "4");
            apply(&store, Command::Compact { revision: AFTER });
            assert!(store.collect(StepMax::records(usize::MAX)).expect("the collection goes on").deleted > 0);
        }),
    ));
    store
}

fn everything(revision: i64) -> Range {
    Range { revision, ..Range::latest(KeyRange::From(Bytes::new())) }
}

fn assert_compacted<T>(answer: Result<T, ReadFailure>) {
    let oldest = Revision::new(AFTER as u64);
    match answer {
        Err(ReadFailure::Rejected(rejection)) => assert_eq!(rejection, Rejection::Compacted { oldest }),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("an overtaken read has no answer"),
    }
}

#[test]
fn a_range_at_a_revision_that_is_compacted_meanwhile_is_refused() {
    for moment in [Moment::Scan, Moment::Fetch] {
        for revision in [2, 3] {
            assert_compacted(interrupted(moment).range(&everything(revision)));
        }
    }
    // At the newest revision the keys are chosen before anything can happen.
    assert_compacted(interrupted(Moment::Fetch).range(&everything(BEFORE)));
    // Without values there is nothing that could be missing but keys.
    let keys_only = Range { keys_only: true, ..everything(3) };
    assert_compacted(interrupted(Moment::Scan).range(&keys_only));
    let count_only = Range { count_only: true, ..everything(3) };
    assert_compacted(interrupted(Moment::Scan).range(&count_only));
}

#[test]
fn a_range_of_the_newest_state_is_read_again() {
    let store = interrupted(Moment::Fetch);
    let answer = store.range(&everything(0)).expect("there is a newer state to read");
    assert_eq!((answer.revision.wire(), answer.count), (AFTER, 2));
    assert_eq!(answer.kvs[0].value, "4");
}

/// So many keys that they are chosen by a scan.
#[test]
fn a_long_range_of_the_newest_state_is_read_again() {
    let engine = Arc::new(Watched::<Interrupted>::default());
    let store = Arc::new(Store::open(engine.clone()).expect("nothing loads"));
    for n in 0..2_100 {
        put(&store, &format!("{n:05}"), "old");
    }
    let later = Arc::downgrade(&store);
    let interruption = Box::new(move || {
        let store = later.upgrade().expect("the store is being read");
        for n in 0..50 {
            put(&store, &format!("{n:05}"), "new");
        }
        apply(&store, Command::Compact { revision: store.revision().wire() });
        assert!(store.collect(StepMax::records(usize::MAX)).expect("the collection goes on").deleted > 0);
    });
    *engine.observer.armed.lock() = Some((Moment::Scan, interruption));
    let answer = store.range(&everything(0)).expect("there is a newer state to read");
    assert_eq!((answer.revision, answer.kvs.len()), (store.revision(), 2_100));
    assert_eq!(answer.kvs.iter().filter(|kv| kv.value == "new").count(), 50);
}

#[test]
fn history_that_is_compacted_meanwhile_is_refused() {
    assert_compacted(interrupted(Moment::Scan).changes(Revision::new(3), usize::MAX));
}

#[test]
fn a_page_of_a_revision_that_is_compacted_meanwhile_is_refused() {
    for moment in [Moment::Scan, Moment::Fetch] {
        let store = interrupted(moment);
        // Counting at the newest revision touches no rows, so the first page is the one interrupted.
        let mut pages = store.open_pages(&everything(0)).expect("the newest revision is kept");
        assert_compacted(store.next_page(&mut pages, PageMax { keys: 1, bytes: 1 }));
    }
}

#[test]
fn a_hash_is_that_of_one_compaction() {
    assert_compacted(interrupted(Moment::Scan).hash(3));
    let store = interrupted(Moment::Scan);
    let overtaken = store.hash(0).expect("the newest revision is kept");
    assert_eq!(overtaken.compacted, AFTER);
    assert_eq!(overtaken, store.hash(0).expect("the newest revision is kept"));
}
