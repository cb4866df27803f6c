//! The comparison tested on itself: two etcds never differ, and every planted difference is found.
//!
//! Slow and without any of our server in it, so it runs only when asked for:
//! `cargo nextest run -p setpoint-etcd-tests --run-ignored only --test self_validation`.

mod planted;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::{StreamExt, stream};
use planted::Plant;
use setpoint_etcd_tests::answer::Answer;
use setpoint_etcd_tests::campaign::{self, Campaign, Extent};
use setpoint_etcd_tests::corpus::{self, Corpus};
use setpoint_etcd_tests::generate::{self, FIRST_SEED};
use setpoint_etcd_tests::peer::EtcdBinaries;
use setpoint_etcd_tests::stage::{Stage, Subject, replay_session_on_etcd};
use setpoint_etcd_tests::step::Sequence;

fn notes() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::test]
#[ignore = "tests the harness, not the server; takes minutes"]
async fn two_etcds_never_differ() {
    let binaries = EtcdBinaries::find().expect("this test needs a real etcd");
    let stage = Stage::new(binaries, Subject::Etcd);
    let sequences = number("SETPOINT_DIFF_SEQUENCES", 1000);
    let first_seed = u64::try_from(number("SETPOINT_DIFF_SEED", 0)).unwrap_or(0).max(FIRST_SEED);
    let extent = Extent { first_seed, sequences, lanes: number("SETPOINT_DIFF_LANES", 3) };
    let outcome = campaign::run(&stage, extent, notes()).await.unwrap_or_else(|error| panic!("{error}"));
    eprintln!("{} sequences, {} steps", outcome.sequences, outcome.steps);
    if let Some(report) = outcome.difference {
        panic!("two etcds differ, so the comparison is wrong:\n{report}");
    }
}

/// Sequences after which a plant counts as impossible. The rarest needs a defragmentation.
const TRIES: u64 = 600;
/// Pairs of servers that run at the same time.
const PAIRS: usize = 4;

#[tokio::test]
#[ignore = "tests the harness, not the server; takes minutes"]
async fn every_planted_difference_is_found() {
    let binaries = EtcdBinaries::find().expect("this test needs a real etcd");
    let verdicts =
        stream::iter(planted::plants()).map(|plant| grow(binaries.clone(), plant)).buffer_unordered(PAIRS);
    let failures: Vec<String> = verdicts.filter_map(|verdict| async { verdict.err() }).collect().await;
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Runs sequences until the difference could be planted; the comparison must stop at that step.
async fn grow(binaries: EtcdBinaries, plant: Plant) -> Result<(), String> {
    let Plant { name, change } = plant;
    let stage = Stage::new(binaries, Subject::Etcd);
    let mut campaign = Campaign::new(stage.open().await.map_err(|error| error.to_string())?);
    let planted = Arc::new(AtomicBool::new(false));
    let mark = Arc::clone(&planted);
    campaign.falsify(Box::new(move |_, answer| {
        if !mark.load(Ordering::Relaxed) && change(answer) {
            mark.store(true, Ordering::Relaxed);
        }
    }));
    for seed in FIRST_SEED..FIRST_SEED + TRIES {
        let found =
            campaign.run(generate::sequence(seed, true)).await.map_err(|error| format!("{name}: {error}"))?;
        match (planted.load(Ordering::Relaxed), found) {
            (true, Some(_)) => return Ok(()),
            (true, None) => return Err(format!("not noticed: {name}")),
            (false, Some((_, mismatch))) => return Err(format!("a difference nobody planted: {mismatch:?}")),
            (false, None) => {}
        }
    }
    Err(format!("could not be planted: {name}"))
}

/// What was recorded from one etcd holds for another.
#[tokio::test]
#[ignore = "tests the harness, not the server; takes minutes"]
async fn the_corpus_replays_on_etcd() {
    let binaries = EtcdBinaries::find().expect("this test needs a real etcd");
    for file in corpus::files().expect("the corpus folder can be read") {
        let corpus = Corpus::read(&file).unwrap_or_else(|error| panic!("{error}"));
        let mut session = replay_session_on_etcd(&binaries).await.unwrap_or_else(|error| panic!("{error}"));
        for record in &corpus.records {
            let mismatch = session.replay(record).await.unwrap_or_else(|error| panic!("{error}"));
            if let Some(mismatch) = mismatch {
                panic!("{}: {}", file.display(), campaign::describe(&record.sequence, &mismatch));
            }
        }
    }
}

/// A server that is always wrong in the same way leads to a report with few steps, whose replay shows the same.
#[tokio::test]
#[ignore = "tests the harness, not the server; takes minutes"]
async fn a_difference_is_shrunk_and_can_be_replayed() {
    let binaries = EtcdBinaries::find().expect("this test needs a real etcd");
    let mut stage = Stage::new(binaries, Subject::Etcd);
    // Wrong only where two keys are deleted at once: that takes two puts and a delete.
    stage.falsifier = Some(Arc::new(|| {
        Box::new(|_, answer| {
            if let Answer::Delete(Ok(response)) = answer
                && response.deleted == 2
            {
                response.deleted = 3;
            }
        })
    }));
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    let extent = Extent { first_seed: FIRST_SEED, sequences: 200, lanes: 1 };
    let outcome =
        campaign::run(&stage, extent, folder.path()).await.unwrap_or_else(|error| panic!("{error}"));
    let report = outcome.difference.expect("the difference is found");
    assert!(report.contains("deleted: reference 2, subject 3"), "{report}");
    let files: Vec<_> = folder.path().read_dir().expect("the folder can be read").collect();
    let file = files.into_iter().next().expect("the sequence was saved").expect("and can be read").path();
    let text = std::fs::read_to_string(&file).expect("the sequence was saved");
    let sequence: Sequence = serde_json::from_str(&text).expect("as a sequence");
    // Three steps of prologue, and at most one step after the one that differs.
    assert!(sequence.steps.len() <= 8, "{report}");
    let replayed = campaign::replay_file(&stage, &file).await.unwrap_or_else(|error| panic!("{error}"));
    assert!(replayed.is_some_and(|report| report.contains("deleted: reference 2, subject 3")));
}
