//! The comparison tested on itself: two etcds never differ, and every planted difference is found.
//!
//! Slow and without any of our server in it, so it runs only when asked for:
//! `cargo nextest run -p setpoint-etcd-tests --run-ignored only --test self_validation`.

use std::path::Path;

use setpoint_etcd_tests::campaign;
use setpoint_etcd_tests::generate::FIRST_SEED;
use setpoint_etcd_tests::peer::EtcdBinaries;
use setpoint_etcd_tests::stage::{Stage, Subject};

fn notes() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::test]
#[ignore = "tests the harness, not the server; takes minutes"]
#[expect(clippy::print_stderr, reason = "says how much was compared")]
async fn two_etcds_never_differ() {
    let binaries = EtcdBinaries::find().expect("this test needs a real etcd");
    let stage = Stage::new(binaries, Subject::Etcd);
    let count = number("SETPOINT_DIFF_SEQUENCES", 1000);
    let seed = u64::try_from(number("SETPOINT_DIFF_SEED", 0)).unwrap_or(0).max(FIRST_SEED);
    let outcome = campaign::run(&stage, seed, count, notes()).await.unwrap_or_else(|error| panic!("{error}"));
    eprintln!("{} sequences, {} steps", outcome.sequences, outcome.steps);
    if let Some(report) = outcome.difference {
        panic!("two etcds differ, so the comparison is wrong:\n{report}");
    }
}
