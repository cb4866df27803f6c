//! A disk that fails, fills up or is slow; and how many syncs it is asked for.

use std::io;
use std::sync::atomic::Ordering;

use futures::FutureExt;
use openraft::storage::RaftLogStorage;
use setpoint_consensus::log::{LogOptions, MemoryFs, Vote};

use crate::kit::{Log, entries, entry, id, tiny};

fn roomy() -> LogOptions {
    LogOptions { segment_bytes: 64 << 10, ..tiny() }
}

#[test]
fn what_is_queued_together_is_synced_once() {
    let mut log = Log::open(&MemoryFs::default(), roomy()).expect("an empty disk opens");
    let before = log.fs.counts();
    let mut acks: Vec<_> =
        (0..100).map(|index| log.append(vec![entry(1, index, 50)]).expect("the entries follow")).collect();
    log.commit(id(1, 50));
    assert!(log.writer.step() && !log.writer.step(), "one batch should take everything");
    let after = log.fs.counts();
    assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (1, 1));
    assert!(acks.iter_mut().all(|ack| matches!(ack.outcome(), Some(Ok(())))));
    assert_eq!(log.watch.batches.load(Ordering::SeqCst), 1);
    assert_eq!(log.watch.entries.load(Ordering::SeqCst), 100);
}

#[test]
fn a_batch_is_bounded() {
    let options = LogOptions { batch_bytes_max: 1000, batch_operations_max: 3, ..roomy() };
    let mut log = Log::open(&MemoryFs::default(), options).expect("an empty disk opens");
    let _small: Vec<_> = (0..6).map(|index| log.append(vec![entry(1, index, 10)])).collect();
    let _large: Vec<_> = (6..9).map(|index| log.append(vec![entry(1, index, 600)])).collect();
    let mut batches = 0;
    while log.writer.step() {
        batches += 1;
    }
    assert_eq!(batches, 2 + 3);
}

#[test]
fn committed_and_purge_alone_cost_no_sync_and_still_survive_a_kill() {
    let fs = MemoryFs::default();
    let mut log = Log::open(&fs, roomy()).expect("an empty disk opens");
    log.append_now(entries(1, 0..10, 50));
    let before = fs.counts();
    log.commit(id(1, 8));
    log.purge(id(1, 3));
    log.step();
    assert_eq!(fs.counts().syncs, before.syncs);
    let mut log = Log::open(&fs, roomy()).expect("the log opens");
    assert_eq!((log.committed(), log.bounds().0), (Some(id(1, 8)), Some(id(1, 3))));
}

/// S2.
#[test]
fn a_full_disk_confirms_nothing_and_is_reported() {
    let fs = MemoryFs::default();
    let mut log = Log::open(&fs, tiny()).expect("an empty disk opens");
    log.append_now(entries(1, 0..2, 100));
    fs.limit_space(Some(3000));
    let mut fits = log.append(entries(1, 2..4, 100)).expect("the entries follow");
    log.step();
    fits.outcome().expect("there was room").expect("there was room");
    let mut ack = log.append(entries(1, 4..20, 100)).expect("the entries follow");
    let mut later = log.append(entries(1, 20..21, 100)).expect("the entries follow");
    log.step();
    for ack in [&mut ack, &mut later] {
        let error = ack.outcome().expect("a verdict").expect_err("nothing more fits");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
    assert!(log.watch.failed.load(Ordering::SeqCst));
    assert_eq!(
        log.save_vote(Vote::new(2, 1)).expect_err("the log failed").kind(),
        io::ErrorKind::StorageFull
    );

    fs.power_loss(|| false);
    let log = Log::open(&fs, tiny()).expect("there is room again");
    let held = log.entries();
    assert!(held.len() >= 4, "confirmed entries are gone");
    assert_eq!(held, entries(1, 0..held.len() as u64, 100));
}

#[test]
fn a_failed_sync_is_final() {
    let fs = MemoryFs::default();
    let mut log = Log::open(&fs, roomy()).expect("an empty disk opens");
    fs.fail_syncs_after(Some(0));
    let mut first = log.append(entries(1, 0..1, 50)).expect("the entries follow");
    log.step();
    assert!(first.outcome().expect("a verdict").is_err());
    fs.fail_syncs_after(None);
    let syncs = fs.counts().syncs;
    assert!(log.append(entries(1, 1..2, 50)).is_err(), "a failed log took an entry");
    log.step();
    assert_eq!(fs.counts().syncs, syncs, "a failed sync was followed by another");
    assert!(log.save_vote(Vote::new(2, 1)).is_err());
}

#[test]
fn what_a_failed_sync_left_in_the_cache_is_written_again() {
    let fs = MemoryFs::default();
    let mut log = Log::open(&fs, roomy()).expect("an empty disk opens");
    fs.fail_syncs_after(Some(0));
    let _unconfirmed = log.append(entries(1, 0..3, 50)).expect("the entries follow");
    log.step();
    fs.forget_unsynced();
    fs.fail_syncs_after(None);
    // The process restarts, the machine does not: the entries are still readable.
    let log = Log::open(&fs, roomy()).expect("the log opens");
    let held = log.entries();
    assert_eq!(held.len(), 3);
    // openraft counts what it finds at start as durable. So it must be.
    fs.power_loss(|| false);
    assert_eq!(Log::open(&fs, roomy()).expect("the log opens").entries(), held);
}

#[test]
fn who_outruns_the_disk_waits() {
    let options = LogOptions { queue_operations_max: 4, ..roomy() };
    let mut log = Log::open(&MemoryFs::default(), options).expect("an empty disk opens");
    let _acks: Vec<_> = (0..4).map(|index| log.append(vec![entry(1, index, 10)])).collect();
    let Log { store, writer, .. } = &mut log;
    let mut waiting = Box::pin(store.truncate_after(Some(id(1, 1))));
    assert!((&mut waiting).now_or_never().is_none(), "a full queue took another operation");
    assert!(writer.step());
    assert!((&mut waiting).now_or_never().is_some(), "there is room, but nobody was told");
}

#[test]
fn a_hole_is_refused() {
    let mut log = Log::open(&MemoryFs::default(), roomy()).expect("an empty disk opens");
    log.append_now(entries(1, 0..3, 10));
    assert_eq!(
        log.append(entries(1, 4..5, 10)).err().map(|error| error.kind()),
        Some(io::ErrorKind::InvalidInput)
    );
    let holed = vec![entry(1, 3, 10), entry(1, 5, 10)];
    assert_eq!(log.append(holed).err().map(|error| error.kind()), Some(io::ErrorKind::InvalidInput));
    assert_eq!(log.entries().len(), 3);
}
