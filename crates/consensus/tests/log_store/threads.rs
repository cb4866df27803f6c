//! The log as a node runs it: real files, a writer thread, readers on other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use openraft::RaftLogReader;
use openraft::storage::{IOFlushed, RaftLogStorage, RaftLogStorageExt};
use setpoint_consensus::log::{DirFs, Ignore, LogOptions, LogStore, LogThread, MemoryFs, Vote, open};

use crate::kit::{Watch, entries, entry, id, tiny};

fn start(path: &std::path::Path, options: LogOptions) -> (LogStore, LogThread) {
    let fs = DirFs::open(path).expect("nobody else has the directory");
    let (store, writer) = open(Arc::new(fs), options, Arc::new(Ignore)).expect("the log opens");
    (store, writer.spawn().expect("a thread starts"))
}

#[tokio::test]
async fn a_log_comes_back_from_its_files() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let options = LogOptions { segment_bytes: 64 << 10, ..tiny() };
    let (mut store, thread) = start(directory.path(), options.clone());
    for first in (0..2000).step_by(100) {
        store.blocking_append(entries(3, first..first + 100, 100)).await.expect("the entries are durable");
    }
    store.save_vote(&Vote::new_committed(3, 2)).await.expect("the vote is durable");
    store.purge(id(3, 499)).await.expect("the log purges");
    store.save_committed(Some(id(3, 1990))).await.expect("the log takes the position");
    drop(store);
    thread.join();

    let (mut store, thread) = start(directory.path(), options);
    let mut reader = store.get_log_reader().await;
    assert_eq!(reader.try_get_log_entries(..).await.expect("readable"), entries(3, 500..2000, 100));
    assert_eq!(reader.read_vote().await.expect("readable"), Some(Vote::new_committed(3, 2)));
    assert_eq!(store.read_committed().await.expect("readable"), Some(id(3, 1990)));
    // The purge left with the sync at the end; the next sync gives the space back.
    store.blocking_append(entries(3, 2000..2001, 100)).await.expect("the entries are durable");
    drop((store, reader));
    thread.join();
    let files = std::fs::read_dir(directory.path()).expect("the directory is there").count();
    assert!(files < 8, "purged segments are still there: {files} files");
}

/// Readers run against appends, truncations and purges: whatever they get is consecutive, and they get what
/// was appended.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_see_a_consistent_log() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let options = LogOptions { segment_bytes: 16 << 10, tail_entries_max: 50, ..LogOptions::default() };
    let (mut store, thread) = start(directory.path(), options);
    let (purged, stable, done) =
        (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));

    let readers: Vec<_> = (0..3)
        .map(|_| {
            let mut reader = store.reader();
            let (purged, stable, done) = (purged.clone(), stable.clone(), done.clone());
            tokio::spawn(async move {
                let mut reads = 0_u64;
                while !done.load(Ordering::SeqCst) {
                    // Everything below `stable` stays until it is purged, so it has to be there.
                    let end = stable.load(Ordering::SeqCst);
                    let read = reader.try_get_log_entries(..).await.expect("readable");
                    let gone = purged.load(Ordering::SeqCst);
                    for pair in read.windows(2) {
                        assert_eq!(pair[0].log_id.index + 1, pair[1].log_id.index, "a hole");
                    }
                    if let (Some(first), Some(last)) = (read.first(), read.last()) {
                        assert!(
                            first.log_id.index <= gone,
                            "{} was not purged, only up to {gone}",
                            first.log_id.index
                        );
                        assert!(
                            last.log_id.index + 1 >= end,
                            "{end} was appended, but {} is the last",
                            last.log_id.index
                        );
                    }
                    for found in &read {
                        assert_eq!(*found, entry(*found.log_id.leader_id, found.log_id.index, 80));
                    }
                    reads += 1;
                    tokio::task::yield_now().await;
                }
                reads
            })
        })
        .collect();

    let mut next = 0;
    for round in 1..300_u64 {
        store
            .append(entries(round, next..next + 20, 80), IOFlushed::noop())
            .await
            .expect("the entries follow");
        // The last five are rewritten in the next term.
        store.truncate_after(Some(id(round, next + 14))).await.expect("the log truncates");
        next += 15;
        stable.store(next, Ordering::SeqCst);
        if round % 10 == 0 {
            // Announced before it happens.
            purged.store(next - 99, Ordering::SeqCst);
            store.purge(id(round - 6, next - 100)).await.expect("the log purges");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    store.save_vote(&Vote::new(400, 1)).await.expect("the writer keeps up");
    done.store(true, Ordering::SeqCst);
    for reader in readers {
        assert!(reader.await.expect("a reader found the log consistent") > 0, "a reader never read");
    }
    drop(store);
    thread.join();
}

#[tokio::test]
async fn appends_return_while_the_disk_is_busy_and_share_the_next_sync() {
    let fs = MemoryFs::default();
    let watch = Arc::new(Watch::default());
    let (mut store, writer) =
        open(Arc::new(fs.clone()), LogOptions { segment_bytes: 1 << 20, ..tiny() }, watch.clone())
            .expect("an empty disk opens");
    let thread = writer.spawn().expect("a thread starts");
    fs.delay_syncs(Duration::from_millis(100));
    let began = std::time::Instant::now();
    for index in 0..200 {
        store.append(vec![entry(1, index, 50)], IOFlushed::noop()).await.expect("the entries follow");
    }
    assert!(began.elapsed() < Duration::from_millis(90), "an append waited for the disk");
    assert_eq!(store.reader().try_get_log_entries(..).await.expect("readable").len(), 200);
    store.save_vote(&Vote::new(2, 1)).await.expect("the vote is durable");
    let batches = watch.batches.load(Ordering::SeqCst);
    assert!(batches <= 3, "200 appends during one slow sync took {batches} batches");
    fs.delay_syncs(Duration::ZERO);
    drop(store);
    thread.join();
}

#[tokio::test]
async fn a_committed_position_reaches_the_file_without_another_append() {
    let fs = MemoryFs::default();
    let options = LogOptions { committed_delay: Duration::from_millis(5), ..tiny() };
    let (mut store, writer) =
        open(Arc::new(fs.clone()), options.clone(), Arc::new(Ignore)).expect("an empty disk opens");
    let thread = writer.spawn().expect("a thread starts");
    store.blocking_append(entries(1, 0..3, 20)).await.expect("the entries are durable");
    let before = fs.counts();
    store.save_committed(Some(id(1, 2))).await.expect("the log takes the position");
    for _ in 0..400 {
        if fs.counts().writes > before.writes {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!((fs.counts().writes, fs.counts().syncs), (before.writes + 1, before.syncs));
    drop(store);
    thread.join();
}

#[tokio::test]
async fn the_writer_can_run_as_a_task() {
    let fs = MemoryFs::default();
    let (mut store, writer) =
        open(Arc::new(fs.clone()), tiny(), Arc::new(Ignore)).expect("an empty disk opens");
    let task = tokio::spawn(writer.run(|| tokio::time::sleep(Duration::from_millis(1))));
    store.blocking_append(entries(1, 0..30, 100)).await.expect("the entries are durable");
    store.save_vote(&Vote::new(2, 1)).await.expect("the vote is durable");
    drop(store);
    task.await.expect("the writer ends with its store");
    fs.power_loss(|| false);
    let (store, _writer) = open(Arc::new(fs), tiny(), Arc::new(Ignore)).expect("the log opens");
    assert_eq!(store.reader().try_get_log_entries(..).await.expect("readable").len(), 30);
}
