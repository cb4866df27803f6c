//! The work of a read follows what it answers, not how much history there is.
//!
//! Counts the rows that are shown and fetched.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use setpoint_store::command::Range;
use setpoint_store::engine::Table;
use setpoint_store::{PageMax, ReadFailure, Store, VersionsMax};
use setpoint_types::{KeyRange, Revision, Timestamp};

use super::watched::{Observer, Watched, put};

#[derive(Default)]
struct Counting {
    shown: AtomicUsize,
    fetched: AtomicUsize,
    /// Records cannot be found any more.
    blind: AtomicBool,
}

impl Observer for Counting {
    fn fetch(&self, table: Table) -> bool {
        self.fetched.fetch_add(1, Ordering::Relaxed);
        table != Table::Records || !self.blind.load(Ordering::Relaxed)
    }

    fn show(&self) {
        self.shown.fetch_add(1, Ordering::Relaxed);
    }
}

struct Fixture {
    engine: Arc<Watched<Counting>>,
    store: Store,
}

impl Fixture {
    fn new() -> Self {
        let engine = Arc::new(Watched::<Counting>::default());
        Self { store: Store::open(engine.clone()).expect("nothing loads"), engine }
    }

    fn put(&self, key: &str, value: &str) -> i64 {
        put(&self.store, key, value)
    }

    /// Rows shown to a read, and its first value.
    fn read(&self, range: KeyRange, revision: i64) -> (usize, Vec<Bytes>) {
        let before = self.engine.observer.shown.load(Ordering::Relaxed);
        let answer = self.store.range(&Range { revision, ..Range::latest(range) }).expect("kept");
        let shown = self.engine.observer.shown.load(Ordering::Relaxed) - before;
        (shown, answer.kvs.into_iter().map(|kv| kv.value).collect())
    }
}

#[test]
fn a_past_read_does_not_walk_the_versions_it_does_not_answer_with() {
    let fixture = Fixture::new();
    let mut revisions = Vec::new();
    for version in 0..3_000 {
        for key in ["a", "b", "c"] {
            revisions.push(fixture.put(key, &version.to_string()));
        }
    }
    let single = |key: &'static str| KeyRange::Single(Bytes::from_static(key.as_bytes()));
    for place in [5, 4_500, 8_990] {
        let at = revisions[place];
        let version = place / 3;
        let (shown, values) = fixture.read(single("b"), at);
        assert_eq!(values, [if place % 3 >= 1 { version } else { version - 1 }.to_string()]);
        assert!(shown <= 2, "{shown} rows for one key at revision {at}");
        let (shown, values) = fixture.read(KeyRange::From(Bytes::from_static(b"a")), at);
        assert_eq!(values.len(), 3);
        assert!(shown < 200, "{shown} rows for three keys at revision {at}");
    }
}

#[test]
fn history_and_times_are_found_without_a_walk() {
    let fixture = Fixture::new();
    for version in 0..3_000 {
        fixture.put("a", &version.to_string());
        fixture.put("b", &version.to_string());
    }
    let shown = || fixture.engine.observer.shown.load(Ordering::Relaxed);
    for (before, newest) in [(Revision::NONE, 6_000), (Revision::new(3_000), 2_998)] {
        let earlier = shown();
        let max = VersionsMax { count: 10, bytes: usize::MAX };
        let found = fixture.store.versions(b"a", before, max).expect("kept");
        let first = found.versions[0].id.revision;
        assert_eq!((found.versions.len(), found.more, first), (10, true, Revision::new(newest)));
        assert!(shown() - earlier <= 11);
    }
    let earlier = shown();
    assert_eq!(fixture.store.revision_at(Timestamp(0)).expect("kept"), fixture.store.revision());
    assert!(shown() - earlier <= 1);
}

#[test]
fn a_page_is_bounded_by_keys_and_by_bytes() {
    let fixture = Fixture::new();
    let value = "x".repeat(10_000);
    for key in 0..200 {
        fixture.put(&format!("{key:03}"), &value);
    }
    let all = Range::latest(KeyRange::From(Bytes::from_static(b"0")));
    for (max, keys) in [
        (PageMax { keys: 1_000, bytes: 50_000 }, 5),
        (PageMax { keys: 3, bytes: 50_000 }, 3),
        (PageMax { keys: 1_000, bytes: 0 }, 1),
    ] {
        let mut pages = fixture.store.open_pages(&all).expect("opened");
        let before = fixture.engine.observer.fetched.load(Ordering::Relaxed);
        let page = fixture.store.next_page(&mut pages, max).expect("read");
        assert_eq!((page.kvs.len(), page.last), (keys, false), "{max:?}");
        assert!(fixture.engine.observer.fetched.load(Ordering::Relaxed) - before <= 16, "{max:?}");
    }
}

#[test]
fn a_read_that_never_finds_its_record_ends_as_damage() {
    let fixture = Fixture::new();
    fixture.put("a", "1");
    fixture.engine.observer.blind.store(true, Ordering::Relaxed);
    let answer = fixture.store.range(&Range::latest(KeyRange::Single(Bytes::from_static(b"a"))));
    assert!(matches!(answer, Err(ReadFailure::Engine(_))), "{answer:?}");
}
