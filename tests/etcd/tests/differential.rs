//! Our server answers like etcd: compared request by request with a running one, and with a recorded one.
//!
//! | variable | meaning |
//! |---|---|
//! | `SETPOINTD` | the server to test, instead of the one built beside this test |
//! | `ETCD_BIN_DIR` | etcd's programs, instead of fetching them |
//! | `SETPOINT_DIFF_SEQUENCES` | how many sequences to compare (2000 with one node, 200 with a cluster) |
//! | `SETPOINT_DIFF_SEED` | the first seed (1000) |
//! | `SETPOINT_DIFF_LANES` | pairs of servers at the same time (4 with one node, 2 with a cluster) |
//! | `SETPOINT_DIFF_SURVEY` | set to anything: do not stop at the first difference, but report every kind |
//! | `SETPOINT_DIFF_REPLAY` | a file with one sequence to replay instead, as a failure prints it |

use std::path::Path;

use futures::future::join_all;
use setpoint_etcd_tests::campaign::{self, Extent};
use setpoint_etcd_tests::cluster::setpointd;
use setpoint_etcd_tests::corpus::{self, Corpus, FORMAT};
use setpoint_etcd_tests::generate::{self, FIRST_SEED};
use setpoint_etcd_tests::peer::EtcdBinaries;
use setpoint_etcd_tests::stage::{Stage, Subject, replay_session};
use setpoint_etcd_tests::survey::survey;

/// The repository must not grow without bound.
const CORPUS_BYTES_MAX: u64 = 3 * 1024 * 1024;

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn notes() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Without an etcd there is nothing to compare with, and the reason is printed; the corpus stands in for it.
#[expect(clippy::print_stderr, reason = "the test runner shows why it was skipped")]
fn etcd_or_skip() -> Option<EtcdBinaries> {
    match EtcdBinaries::find() {
        Ok(binaries) => Some(binaries),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

async fn compare_live(nodes: usize, sequences: usize, lanes: usize) {
    setpointd().unwrap_or_else(|error| panic!("{error}"));
    let Some(binaries) = etcd_or_skip() else { return };
    let stage = Stage::new(binaries, Subject::Setpointd { nodes });
    let difference = if let Some(path) = std::env::var_os("SETPOINT_DIFF_REPLAY") {
        campaign::replay_file(&stage, Path::new(&path)).await.unwrap_or_else(|error| panic!("{error}"))
    } else {
        let first_seed = u64::try_from(number("SETPOINT_DIFF_SEED", 0)).unwrap_or(0).max(FIRST_SEED);
        let extent = Extent { first_seed, sequences, lanes: number("SETPOINT_DIFF_LANES", lanes) };
        if std::env::var_os("SETPOINT_DIFF_SURVEY").is_some() {
            survey(&stage, extent).await.unwrap_or_else(|error| panic!("{error}"))
        } else {
            campaign::run(&stage, extent, notes()).await.unwrap_or_else(|error| panic!("{error}")).difference
        }
    };
    if let Some(report) = difference {
        panic!("setpointd does not answer like etcd\n{report}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn differential_live() {
    compare_live(1, number("SETPOINT_DIFF_SEQUENCES", 2000), 4).await;
}

/// The same through a cluster of three: each sequence talks to another node, which must not show.
#[tokio::test(flavor = "multi_thread")]
async fn differential_live_cluster() {
    compare_live(3, number("SETPOINT_DIFF_SEQUENCES", 200), 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn differential_corpus() {
    let files = corpus::files().expect("the corpus folder can be read");
    let replays = files.iter().map(|file| replay(file));
    let differences: Vec<String> = join_all(replays).await.into_iter().flatten().collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Replays a file on a fresh server; the report of the first difference, if there is one.
async fn replay(file: &Path) -> Option<String> {
    let corpus = Corpus::read(file).unwrap_or_else(|error| panic!("{error}"));
    let mut session = replay_session(1).await.unwrap_or_else(|error| panic!("{error}"));
    for record in &corpus.records {
        let mismatch = session.replay(record).await.unwrap_or_else(|error| panic!("{error}"));
        if let Some(mismatch) = mismatch {
            let (etcd, path) = (&corpus.head.etcd, file.display());
            let report = campaign::describe(&record.sequence, &mismatch);
            return Some(format!("setpointd does not answer as etcd {etcd} did\n{path}: {report}"));
        }
    }
    None
}

#[test]
fn the_corpus_is_complete_and_small() {
    let files = corpus::files().expect("the corpus folder can be read");
    let bytes: u64 = files.iter().map(|file| file.metadata().map_or(0, |metadata| metadata.len())).sum();
    assert!(bytes <= CORPUS_BYTES_MAX, "the corpus has {bytes} bytes");
    let mut profiles = std::collections::BTreeSet::new();
    for file in &files {
        let corpus = Corpus::read(file).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            corpus.head.format,
            FORMAT,
            "{} was recorded in another form: run record-corpus",
            file.display()
        );
        for record in &corpus.records {
            assert_eq!(record.answers.len(), record.sequence.steps.len());
            profiles.insert(record.sequence.profile.clone());
        }
    }
    let expected = generate::Profile::ALL.iter().map(|profile| profile.name().to_owned());
    let expected = expected.chain(generate::scenarios().into_iter().map(|scenario| scenario.profile));
    let missing: Vec<String> = expected.filter(|profile| !profiles.contains(profile)).collect();
    assert!(missing.is_empty(), "the corpus has nothing of {missing:?}: run record-corpus");
}
