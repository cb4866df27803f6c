//! The audit log on a real disk, on a full one, and on one that takes nothing any more.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use setpoint_access::{AuditEntry, AuditLog, AuditOptions, AuditResult, Principal, Recorded, Verb};
use setpoint_types::{Revision, Timestamp};

const PATIENCE: Duration = Duration::from_secs(30);

fn done(revision: u64) -> AuditEntry {
    let result = AuditResult::Done { revision: Revision::new(revision) };
    AuditEntry::new(Timestamp(revision), Principal::anonymous(), Verb::Create, "Workload", result)
}

fn denied() -> AuditEntry {
    let result = AuditResult::Denied { reason: "no role".to_owned() };
    AuditEntry::new(Timestamp(0), Principal::anonymous(), Verb::Delete, "Node", result)
}

fn options(path: &Path) -> AuditOptions {
    AuditOptions { patience: PATIENCE, ..AuditOptions::new(path) }
}

fn lines(path: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(path).expect("a log");
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is not whole: {text}");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is a value")).collect()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn everything_recorded_before_the_end_is_in_the_file_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("audit.log");
    let (log, writer) = AuditLog::open(&options(&path)).expect("opened");
    for revision in 1..=1000 {
        assert_eq!(log.record(done(revision)).await, Recorded::Yes);
    }
    assert_eq!(log.record(denied()).await, Recorded::Yes);
    writer.close().await;
    let lines = lines(&path);
    let revisions: Vec<u64> = lines.iter().filter_map(|line| line["revision"].as_u64()).collect();
    assert_eq!(revisions, (1..=1000).collect::<Vec<_>>());
    assert_eq!(lines[1000]["result"], "denied");
    assert_eq!(log.counts().written, 1001);
    assert_eq!(log.record(done(1001)).await, Recorded::No, "the log has ended");
    assert_eq!(log.record(denied()).await, Recorded::No);
    assert_eq!((log.counts().writes_dropped, log.counts().denials_dropped), (1, 1));
}

#[tokio::test]
async fn files_are_bounded_in_size_and_number_and_cut_between_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("audit.log");
    let options = AuditOptions { file_bytes_max: 2000, files_kept: 2, ..options(&path) };
    let (log, writer) = AuditLog::open(&options).expect("opened");
    for revision in 1..=200 {
        log.record(done(revision)).await;
    }
    writer.close().await;
    let mut kept = Vec::new();
    for name in ["audit.log.2", "audit.log.1", "audit.log"] {
        let path = folder.path().join(name);
        assert!(fs::metadata(&path).expect("a file").len() <= 2000, "{name}");
        kept.extend(lines(&path).iter().filter_map(|line| line["revision"].as_u64()));
    }
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 3);
    let first = kept.first().copied().expect("lines");
    assert!(first > 1, "the oldest are gone");
    assert_eq!(kept, (first..=200).collect::<Vec<_>>(), "nothing is missing between files");
    assert_eq!(log.counts().written, 200);
}

#[tokio::test]
async fn a_line_that_a_crash_has_cut_off_is_not_continued() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("audit.log");
    File::create(&path).and_then(|mut file| file.write_all(b"{\"time\":\"20")).expect("written");
    let (log, writer) = AuditLog::open(&options(&path)).expect("opened");
    log.record(done(7)).await;
    writer.close().await;
    let text = fs::read_to_string(&path).expect("a log");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("{\"time\":\"20"));
    assert!(lines.next().is_some_and(|line| line.contains("\"revision\":7")), "{text}");
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_is_an_error_at_the_start_and_tried_again_later() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(AuditLog::open(&options(&folder.path().join("no/such/folder"))).is_err());

    let inner = folder.path().join("inner");
    fs::create_dir(&inner).expect("made");
    let path = inner.join("audit.log");
    // Every line begins a new file, which the folder has to be there for.
    let (log, writer) =
        AuditLog::open(&AuditOptions { file_bytes_max: 1, ..options(&path) }).expect("opened");
    log.record(done(1)).await;
    until("the first line", || log.counts().written == 1).await;
    fs::remove_dir_all(&inner).expect("removed");
    log.record(done(2)).await;
    until("the failure", || log.counts().failures == 1).await;
    fs::create_dir(&inner).expect("made again");
    log.record(done(3)).await;
    writer.close().await;
    assert_eq!(lines(&path)[0]["revision"], 3);
    let counts = log.counts();
    assert_eq!((counts.written, counts.writes_dropped, counts.failures), (2, 1, 1));
}

#[tokio::test]
async fn a_full_disk_costs_lines_and_nothing_else() {
    let (log, writer) = AuditLog::open(&options(Path::new("/dev/full"))).expect("opened");
    for revision in 1..=10 {
        assert_eq!(log.record(done(revision)).await, Recorded::Yes);
    }
    until("the failures", || log.counts().writes_dropped == 10).await;
    writer.close().await;
    let counts = log.counts();
    assert!(counts.failures >= 1 && counts.written == 0, "{counts:?}");
}

/// A pipe that nobody reads stands for a disk that hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_denials_keeps_no_write_from_its_place_and_a_hanging_disk_stops_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
    let options = AuditOptions { waiting_max: 16, patience: Duration::from_millis(5), ..options(&path) };
    let (log, writer) = AuditLog::open(&options).expect("opened");
    let begun = Instant::now();
    while log.counts().denials_dropped < 1000 {
        log.record(denied()).await;
        assert!(begun.elapsed() < PATIENCE, "the queue takes everything");
    }
    assert_eq!(log.record(done(1)).await, Recorded::Yes, "half of the places are not for denials");
    let mut revision = 2;
    while log.record(done(revision)).await == Recorded::Yes {
        revision += 1;
        assert!(begun.elapsed() < PATIENCE, "the queue takes everything");
    }
    assert_eq!(log.counts().writes_dropped, 1);

    let mut pipe = File::open(&path).expect("opened while its other end is");
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text).expect("read");
        text
    });
    writer.close().await;
    let text = reader.join().expect("read to the end");
    let revisions: Vec<u64> = text
        .lines()
        .filter_map(|line| {
            serde_json::from_str::<serde_json::Value>(line).expect("a value")["revision"].as_u64()
        })
        .collect();
    assert_eq!(revisions, (1..revision).collect::<Vec<_>>(), "whatever had a place was written");
}
