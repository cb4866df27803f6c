//! What recovery drops, and what it refuses: a torn end is normal, a bad record before later ones is not.

use setpoint_consensus::log::{LogError, MemoryFs, Vote};

use crate::kit::{Log, entries, id, segments, tiny};

/// Three synced batches in one segment, the last of one entry. Returns where each batch ended.
fn three_batches(fs: &MemoryFs) -> Vec<usize> {
    let mut log = Log::open(fs, tiny()).expect("an empty disk opens");
    let mut ends = Vec::new();
    for batch in [0..2, 2..4, 4..5] {
        log.append_now(entries(1, batch, 60));
        ends.push(end_of_records(fs, &segments(fs)[0]));
    }
    assert_eq!(segments(fs).len(), 1, "the batches should share a segment");
    ends
}

/// Fresh files are zero behind the records.
fn end_of_records(fs: &MemoryFs, name: &str) -> usize {
    let end = fs.read(name).iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    end.next_multiple_of(8)
}

#[test]
fn a_record_torn_at_any_byte_is_dropped_and_the_log_goes_on() {
    let pristine = MemoryFs::default();
    let ends = three_batches(&pristine);
    let name = &segments(&pristine)[0];
    let whole = pristine.read(name);
    for cut in ends[1]..ends[2] {
        let fs = MemoryFs::default();
        three_batches(&fs);
        let mut torn = whole.clone();
        torn[cut..].fill(0);
        let changed = torn != whole;
        fs.replace(name, torn);
        let mut log = Log::open(&fs, tiny()).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        let kept = if changed { 4 } else { 5 };
        assert_eq!(log.entries(), entries(1, 0..kept, 60), "cut at {cut}");
        log.append_now(entries(2, kept..kept + 2, 60));
        let log = Log::open(&fs, tiny()).expect("the repaired log opens");
        assert_eq!(log.entries(), [entries(1, 0..kept, 60), entries(2, kept..kept + 2, 60)].concat());
    }
}

#[test]
fn every_bit_before_the_last_sync_is_guarded() {
    let pristine = MemoryFs::default();
    let ends = three_batches(&pristine);
    let name = &segments(&pristine)[0];
    // The end of the second batch proves the first; the third proves the second.
    for offset in 0..ends[1] {
        let fs = MemoryFs::default();
        three_batches(&fs);
        fs.flip(name, offset, 1 << (offset % 8));
        match Log::open(&fs, tiny()) {
            Err(LogError::Damaged { file, offset: at, .. }) => {
                assert_eq!(&file, name);
                assert!(at as usize <= offset, "damage at {offset} was reported at {at}");
            }
            Err(other) => panic!("flipped at {offset}: {other}"),
            Ok(log) => panic!("flipped at {offset}, and {} entries were read", log.entries().len()),
        }
    }
}

#[test]
fn damage_in_an_earlier_segment_is_refused() {
    let fs = MemoryFs::default();
    let mut log = Log::open(&fs, tiny()).expect("an empty disk opens");
    for index in 0..20 {
        log.append_now(entries(1, index..index + 1, 200));
    }
    let names = log.segments();
    assert!(names.len() > 2, "{names:?}");
    for name in &names[..names.len() - 1] {
        // Even in its last record, which nothing follows in the same file.
        for offset in [0, 300, end_of_records(&fs, name) - 30] {
            fs.flip(name, offset, 4);
            let error =
                Log::open(&fs, tiny()).err().unwrap_or_else(|| panic!("{name} at {offset} was accepted"));
            assert!(
                matches!(&error, LogError::Damaged { file, .. } if file == name),
                "{name} at {offset}: {error}"
            );
            fs.flip(name, offset, 4);
        }
    }
    Log::open(&fs, tiny()).expect("the damage was undone");
}

#[test]
fn a_missing_segment_is_refused_unless_it_was_purged() {
    use setpoint_consensus::log::LogFs;
    let fs = MemoryFs::default();
    let mut log = Log::open(&fs, tiny()).expect("an empty disk opens");
    for index in 0..20 {
        log.append_now(entries(1, index..index + 1, 200));
    }
    let names = log.segments();
    fs.remove(&names[1]).expect("it exists");
    let error = Log::open(&fs, tiny()).err().expect("a hole was accepted");
    assert!(matches!(error, LogError::Missing { .. }), "{error}");
    assert_eq!(segments(&fs).len(), names.len() - 1, "evidence was removed");

    let fs = MemoryFs::default();
    let mut log = Log::open(&fs, tiny()).expect("an empty disk opens");
    for index in 0..20 {
        log.append_now(entries(1, index..index + 1, 200));
    }
    log.purge(id(1, 15));
    // The purge is written, but its segments stay until a sync: as after a kill in between.
    log.step();
    fs.remove(&names[1]).expect("it exists");
    let log = Log::open(&fs, tiny()).expect("everything before the gap was purged");
    assert_eq!(log.entries(), entries(1, 16..20, 200));
}

#[test]
fn stale_records_of_a_reused_segment_are_not_read() {
    let fs = MemoryFs::default();
    let mut log = Log::open(&fs, tiny()).expect("an empty disk opens");
    let (mut next, mut reused) = (0, 0);
    // Several lives of the same files, each ending at another point; entries of equal size, so that stale
    // records lie exactly where the next ones would.
    for round in 0..60 {
        let before = log.segments().pop();
        for _ in 0..round % 5 + 2 {
            log.append_now(entries(1, next..next + 1, 100));
            next += 1;
        }
        log.purge(id(1, next - 2));
        log.append_now(entries(1, next..next + 1, 100));
        next += 1;
        let mut segments = log.segments();
        assert!(segments.len() <= 2, "segments are not retired: {segments:?}");
        // A segment begun in this round holds at most seven records, which end before 1500.
        let newest = segments.pop();
        if newest != before {
            let content = fs.read(&newest.expect("there is a segment"));
            reused += usize::from(content[1500..].iter().any(|&byte| byte != 0));
        }
        fs.power_loss(|| round % 2 == 0);
        log = Log::open(&fs, tiny()).unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(log.entries(), entries(1, next - 2..next, 100), "round {round}");
    }
    assert!(reused > 5, "only {reused} segments were begun on stale records: the test tests nothing");
}

#[test]
fn records_that_survived_a_torn_write_do_not_come_back() {
    for survivor in 0..4 {
        let fs = MemoryFs::default();
        let mut log = Log::open(&fs, tiny()).expect("an empty disk opens");
        log.append_now(entries(1, 0..1, 100));
        // Four entries of two sectors each; of the unsynced write only some sectors arrive, out of order.
        let _unconfirmed = log.append(entries(1, 1..4, 440)).expect("the entries follow");
        fs.fail_syncs_after(Some(0));
        log.step();
        let mut sector = 0;
        fs.power_loss(|| {
            sector += 1;
            sector > survivor
        });
        let mut log = Log::open(&fs, tiny()).unwrap_or_else(|error| panic!("survivor {survivor}: {error}"));
        let kept = log.entries().len() as u64;
        assert!((1..=4).contains(&kept), "survivor {survivor}: {kept} entries");
        // Of the same size, at the same place, in another term.
        log.append_now(entries(9, kept..kept + 1, 440));
        let log = Log::open(&fs, tiny()).expect("the log opens");
        let expected = [log.entries()[..kept as usize].to_vec(), entries(9, kept..kept + 1, 440)].concat();
        assert_eq!(log.entries(), expected, "survivor {survivor}: dropped entries came back");
    }
}

#[test]
fn an_epoch_that_a_restart_continued_may_be_torn_too() {
    for lost in 0..6 {
        let fs = MemoryFs::default();
        let mut log = Log::open(&fs, tiny()).expect("an empty disk opens");
        log.append_now(entries(1, 0..1, 100));
        // Written but not synced, so its epoch is open when the process is killed.
        log.commit(id(1, 0));
        log.step();
        let mut log = Log::open(&fs, tiny()).expect("the log opens");
        let _unconfirmed = log.append(entries(1, 1..4, 440)).expect("the entries follow");
        fs.fail_syncs_after(Some(0));
        log.step();
        let mut sector = 0;
        fs.power_loss(|| {
            sector += 1;
            sector != lost
        });
        let log = Log::open(&fs, tiny()).unwrap_or_else(|error| panic!("without sector {lost}: {error}"));
        let held = log.entries();
        assert!(!held.is_empty(), "without sector {lost}: a confirmed entry is gone");
        let expected = [entries(1, 0..1, 100), entries(1, 1..4, 440)].concat();
        assert_eq!(held, expected[..held.len()]);
    }
}

#[test]
fn a_segment_that_was_being_begun_is_normal() {
    let fs = MemoryFs::default();
    let mut log = Log::open(&fs, tiny()).expect("an empty disk opens");
    log.append_now(entries(1, 0..4, 350));
    log.save_vote(Vote::new(3, 1)).expect("the vote is saved");
    let before = log.segments().len();
    let _unconfirmed = log.append(entries(1, 4..6, 350)).expect("the entries follow");
    // The old segment's sync, the spare's, the directory's, and then none.
    fs.fail_syncs_after(Some(3));
    log.step();
    fs.power_loss(|| false);
    assert_eq!(
        segments(&fs).len(),
        before + 1,
        "the new segment's name should be on disk: {:?}",
        segments(&fs)
    );
    let mut log = Log::open(&fs, tiny()).expect("an empty newest segment is normal");
    assert_eq!(log.entries()[..4], entries(1, 0..4, 350));
    assert_eq!(log.vote(), Some(Vote::new(3, 1)));
    let next = log.entries().len() as u64;
    log.append_now(entries(4, next..next + 9, 350));
    assert_eq!(Log::open(&fs, tiny()).expect("the log opens").entries().len() as u64, next + 9);
}
