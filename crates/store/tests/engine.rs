//! What the store expects of an engine, checked on both.
//!
//! The tests of one engine alone are those of its crash: power loss played in memory, a killed process on disk.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use setpoint_store::engine::{Table, WriteBatch};
use setpoint_store::{Engine, MemoryEngine, RocksEngine, RocksOptions};
use tempfile::TempDir;

const OPTIONS: RocksOptions =
    RocksOptions { block_cache_bytes: 1 << 20, row_cache_bytes: 64 << 10, write_buffer_bytes: 1 << 20 };

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// An engine's way to open a checkpoint.
type Open = fn(&Path) -> Arc<dyn Engine>;

fn open_memory(dir: &Path) -> Arc<dyn Engine> {
    Arc::new(MemoryEngine::open_checkpoint(dir).expect("the checkpoint opens"))
}

fn open_rocks(dir: &Path) -> Arc<dyn Engine> {
    Arc::new(RocksEngine::open(dir, &OPTIONS).expect("the tables open"))
}

/// Runs a check on each engine, empty, with a directory of its own.
fn on_both(check: impl Fn(Arc<dyn Engine>, Open, &Path)) {
    let home = TempDir::new().expect("a temporary directory");
    check(Arc::new(MemoryEngine::new()), open_memory, home.path());
    let home = TempDir::new().expect("a temporary directory");
    check(open_rocks(&home.path().join("tables")), open_rocks, home.path());
}

fn batch(build: impl FnOnce(&mut WriteBatch)) -> WriteBatch {
    let mut batch = WriteBatch::default();
    build(&mut batch);
    batch
}

fn put(engine: &dyn Engine, table: Table, key: &[u8], value: &[u8]) {
    engine.write(batch(|batch| batch.put(table, key, value))).expect("the batch is written");
}

fn scan(engine: &dyn Engine, table: Table, from: &[u8], to: Option<&[u8]>) -> Rows {
    let mut rows = Rows::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        rows.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    engine.scan(table, from, to, &mut visit).expect("the table is scanned");
    rows
}

fn all(engine: &dyn Engine, table: Table) -> Rows {
    scan(engine, table, &[], None)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, failure_persistence: None, ..ProptestConfig::default() })]

    /// Keys over few bytes, so that bounds meet keys, prefixes of keys and the gaps between.
    #[test]
    fn a_scan_visits_the_rows_between_its_bounds_in_order(
        keys in prop::collection::btree_set(vec(0u8..3, 0..4), 0..40),
        bounds in vec((vec(0u8..3, 0..4), prop::option::of(vec(0u8..3, 0..4))), 20),
        written_twice in any::<bool>(),
    ) {
        on_both(|engine, _, _| {
            for table in Table::ALL {
                for key in &keys {
                    if written_twice {
                        put(&*engine, table, key, b"old");
                    }
                    put(&*engine, table, key, table.name().as_bytes());
                }
            }
            for (from, to) in &bounds {
                for table in Table::ALL {
                    let inside = keys.iter().filter(|key| *key >= from && to.as_ref().is_none_or(|to| *key < to));
                    let expected: Rows = inside.map(|key| (key.clone(), table.name().into())).collect();
                    assert_eq!(scan(&*engine, table, from, to.as_deref()), expected, "{from:?} {to:?}");
                }
            }
        });
    }
}

#[test]
fn a_scan_ends_where_its_visitor_breaks() {
    on_both(|engine, _, _| {
        for key in 0u8..10 {
            put(&*engine, Table::Keys, &[key], b"");
        }
        let mut seen = Vec::new();
        let mut visit = |key: &[u8], _: &[u8]| {
            seen.push(key[0]);
            if key[0] == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        engine.scan(Table::Keys, &[2], None, &mut visit).expect("the table is scanned");
        assert_eq!(seen, [2, 3, 4]);
    });
}

#[test]
fn a_scan_shows_the_rows_as_they_were_when_it_began() {
    on_both(|engine, _, _| {
        for key in 0u8..100 {
            put(&*engine, Table::Keys, &[key], b"old");
        }
        let (mut seen, mut writer) = (0, None);
        let mut visit = |_: &[u8], value: &[u8]| {
            let engine = engine.clone();
            writer.get_or_insert_with(|| {
                std::thread::spawn(move || {
                    let all = (0u8..200).step_by(2);
                    let rows = batch(|batch| all.for_each(|key| batch.put(Table::Keys, [key], b"new")));
                    engine.write(rows).expect("the batch is written");
                })
            });
            assert_eq!(value, b"old");
            seen += 1;
            ControlFlow::Continue(())
        };
        engine.scan(Table::Keys, &[], None, &mut visit).expect("the table is scanned");
        assert_eq!(seen, 100);
        writer.expect("there were rows").join().expect("the writer ends");
        assert_eq!(all(&*engine, Table::Keys).len(), 150);
    });
}

/// Hashing reads records while it scans keys, and the apply does not stop for it.
#[test]
fn rows_can_be_read_inside_a_scan_while_a_writer_waits() {
    on_both(|engine, _, _| {
        put(&*engine, Table::Keys, b"key", b"");
        put(&*engine, Table::Records, b"record", b"value");
        let (done, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let mut visit = |_: &[u8], _: &[u8]| {
                let (writer, started) = (engine.clone(), mpsc::channel());
                std::thread::spawn(move || {
                    started.0.send(()).expect("the scan waits");
                    put(&*writer, Table::Meta, b"meta", b"");
                });
                started.1.recv().expect("the writer starts");
                std::thread::sleep(Duration::from_millis(100)); // it has nothing to tell us while it waits for a lock
                let row = engine.get(Table::Records, b"record").expect("the row is read");
                assert_eq!(row.as_deref(), Some(&b"value"[..]));
                ControlFlow::Continue(())
            };
            engine.scan(Table::Keys, &[], None, &mut visit).expect("the table is scanned");
            done.send(()).expect("the test waits");
        });
        ended.recv_timeout(Duration::from_secs(10)).expect("the scan ends");
    });
}

#[test]
fn a_batch_takes_effect_in_the_order_it_was_filled() {
    on_both(|engine, _, _| {
        put(&*engine, Table::Meta, b"there", b"1");
        let rows = batch(|batch| {
            batch.put(Table::Meta, b"put, then deleted", b"1");
            batch.delete(Table::Meta, b"put, then deleted");
            batch.delete(Table::Meta, b"there");
            batch.put(Table::Meta, b"there", b"2");
            batch.put(Table::Meta, b"twice", b"1");
            batch.put(Table::Meta, b"twice", b"2");
            batch.put(Table::Records, b"once", b"");
            batch.delete(Table::Meta, b"never was");
        });
        engine.write(rows).expect("the batch is written");
        assert_eq!(
            all(&*engine, Table::Meta),
            [(b"there".into(), b"2".into()), (b"twice".into(), b"2".into())]
        );
        engine
            .write(batch(|batch| batch.delete_once(Table::Records, b"once")))
            .expect("the batch is written");
        assert_eq!(all(&*engine, Table::Records), []);
    });
}

/// Readers that see one row of a batch see all of it.
#[test]
fn a_batch_is_seen_whole_by_concurrent_scans() {
    on_both(|engine, _, _| {
        let writes =
            |n: u32| batch(|batch| (0u8..20).for_each(|key| batch.put(Table::Keys, [key], n.to_be_bytes())));
        engine.write(writes(0)).expect("the batch is written");
        std::thread::scope(|scope| {
            let writer =
                scope.spawn(|| (1..500).for_each(|n| engine.write(writes(n)).expect("it is written")));
            while !writer.is_finished() {
                let rows = all(&*engine, Table::Keys);
                assert!(rows.iter().all(|(_, value)| *value == rows[0].1), "{rows:?}");
            }
        });
    });
}

#[test]
fn several_rows_come_in_the_order_they_were_asked_for() {
    on_both(|engine, _, _| {
        for key in 0u8..50 {
            put(&*engine, Table::Records, &[key], &[key, key]);
        }
        let asked: Vec<u8> = vec![7, 200, 3, 3, 49, 0, 99, 7];
        let keys: Vec<_> = asked.iter().map(|key| vec![*key]).collect();
        let expected: Vec<_> =
            asked.iter().map(|key| (*key < 50).then(|| Bytes::from(vec![*key, *key]))).collect();
        assert_eq!(engine.get_many(Table::Records, &keys).expect("the rows are read"), expected);
        assert_eq!(engine.get_many(Table::Keys, &keys).expect("the rows are read"), vec![None; asked.len()]);
        assert_eq!(engine.get_many(Table::Records, &[]).expect("no rows are read"), vec![]);
    });
}

#[test]
fn a_checkpoint_holds_unflushed_rows_and_lives_a_life_of_its_own() {
    on_both(|engine, open, home| {
        put(&*engine, Table::Keys, b"before", b"1");
        put(&*engine, Table::Meta, b"before", b"1");
        let dir = home.join("copy");
        engine.checkpoint(&dir).expect("the checkpoint is made");
        assert!(engine.checkpoint(&dir).is_err(), "a directory in use is not taken");
        put(&*engine, Table::Keys, b"before", b"2");
        put(&*engine, Table::Keys, b"after", b"2");
        let copy = open(&dir);
        assert_eq!(all(&*copy, Table::Keys), [(b"before".into(), b"1".into())]);
        assert_eq!(all(&*copy, Table::Meta), [(b"before".into(), b"1".into())]);
        put(&*copy, Table::Keys, b"copy", b"3");
        assert_eq!(engine.get(Table::Keys, b"copy").expect("the row is read"), None);
        assert_eq!(engine.get(Table::Keys, b"before").expect("the row is read").as_deref(), Some(&b"2"[..]));
    });
}

#[test]
fn a_closed_engine_keeps_its_rows() {
    let home = TempDir::new().expect("a temporary directory");
    let dir = home.path().join("tables");
    put(&*open_rocks(&dir), Table::Meta, b"row", b"1");
    assert_eq!(all(&*open_rocks(&dir), Table::Meta), [(b"row".into(), b"1".into())]);
}

#[test]
fn tables_can_be_looked_at_without_changing_them() {
    let home = TempDir::new().expect("a temporary directory");
    let dir = home.path().join("tables");
    put(&*open_rocks(&dir), Table::Meta, b"row", b"1");
    let files = || -> std::collections::BTreeMap<_, _> {
        let files =
            std::fs::read_dir(&dir).expect("the directory is listed").map(|file| file.expect("a file"));
        let tables = files.filter(|file| !file.file_name().to_string_lossy().contains("LOG"));
        tables.map(|file| (file.file_name(), std::fs::read(file.path()).expect("it is read"))).collect()
    };
    let before = files();
    let engine = RocksEngine::open_read_only(&dir, &OPTIONS).expect("the tables open");
    assert_eq!(all(&engine, Table::Meta), [(b"row".into(), b"1".into())]);
    assert!(engine.write(batch(|batch| batch.put(Table::Meta, b"row", b"2"))).is_err());
    drop(engine);
    assert_eq!(files(), before);
    assert!(RocksEngine::open_read_only(&home.path().join("missing"), &OPTIONS).is_err());
}

#[test]
fn reclaiming_space_loses_no_row() {
    on_both(|engine, _, _| {
        for key in 0u8..=255 {
            put(&*engine, Table::Records, &[key], &[key; 100]);
        }
        let doomed = (0u8..=255).filter(|key| key % 3 != 0);
        engine
            .write(batch(|batch| doomed.for_each(|key| batch.delete_once(Table::Records, [key]))))
            .expect("the batch is written");
        engine.flush().expect("the flush succeeds");
        engine.reclaim().expect("space is reclaimed");
        assert_eq!(all(&*engine, Table::Records).len(), 86);
        assert!(engine.size().total > 0);
    });
}

#[test]
fn a_power_loss_takes_what_was_written_after_the_flush() {
    let engine = MemoryEngine::new();
    put(&engine, Table::Meta, b"1", b"");
    assert_eq!(all(&engine.crash(), Table::Meta), []);
    engine.flush().expect("the flush succeeds");
    put(&engine, Table::Meta, b"2", b"");
    let after = engine.crash();
    assert_eq!(all(&after, Table::Meta), [(b"1".into(), b"".into())]);
    assert_eq!(all(&after.crash(), Table::Meta).len(), 1);
}

const VICTIM_HOME: &str = "SETPOINT_ENGINE_VICTIM";

/// Batch `n` puts row `n` into all tables, and forgets the record of `n - 100`.
fn numbered(n: u64) -> WriteBatch {
    batch(|batch| {
        let key = n.to_be_bytes();
        batch.put(Table::Records, key, vec![0; 40 + n as usize % 3000]);
        batch.put(Table::Keys, key, key);
        batch.put(Table::Meta, b"last", key);
        if n > 100 {
            batch.delete_once(Table::Records, (n - 100).to_be_bytes());
        }
    })
}

fn last(engine: &dyn Engine) -> u64 {
    let row = engine.get(Table::Meta, b"last").expect("the row is read");
    row.map_or(0, |row| u64::from_be_bytes(row[..].try_into().expect("eight bytes")))
}

fn small_rocks(home: &Path) -> RocksEngine {
    let options =
        RocksOptions { block_cache_bytes: 1 << 20, row_cache_bytes: 64 << 10, write_buffer_bytes: 256 << 10 };
    RocksEngine::open(&home.join("tables"), &options).expect("the tables open")
}

/// Not a test of its own: the process that the next one kills.
#[test]
fn victim() {
    let Some(home) = std::env::var_os(VICTIM_HOME) else { return };
    let engine = small_rocks(home.as_ref());
    for n in last(&engine) + 1.. {
        engine.write(numbered(n)).expect("the batch is written");
        if n.is_multiple_of(500) {
            engine.flush().expect("the flush succeeds");
            std::fs::write(Path::new(&home).join("flushed"), n.to_string()).expect("progress is noted");
        }
    }
}

/// S5: whatever the moment, all tables together hold the first batches and nothing of the later ones.
#[test]
fn a_killed_process_leaves_a_prefix_of_its_batches_in_all_tables() {
    let home = TempDir::new().expect("a temporary directory");
    let mut reached = 0;
    for round in 0..4u64 {
        let mut victim = std::process::Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "victim"])
            .env(VICTIM_HOME, home.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("the victim starts");
        let limit = Instant::now() + Duration::from_secs(30);
        let flushed = || {
            let noted = std::fs::read_to_string(home.path().join("flushed")).ok();
            noted.and_then(|number| number.parse().ok()).unwrap_or(0)
        };
        while flushed() < reached + 1000 && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(2 + 3 * round)); // so that it dies at different moments
        }
        let noted = flushed();
        victim.kill().expect("the victim dies");
        victim.wait().expect("the victim is gone");
        assert!(noted > reached, "the victim did not write");

        let engine = small_rocks(home.path());
        let last = last(&engine);
        assert!(last >= noted, "flushed batches are lost: {last} < {noted}");
        let numbers = |table| -> Vec<u64> {
            let rows = all(&engine, table).into_iter();
            rows.map(|(key, _)| u64::from_be_bytes(key[..].try_into().expect("eight bytes"))).collect()
        };
        assert_eq!(numbers(Table::Keys), (1..=last).collect::<Vec<_>>());
        assert_eq!(numbers(Table::Records), (last.saturating_sub(99).max(1)..=last).collect::<Vec<_>>());
        reached = last;
    }
}
