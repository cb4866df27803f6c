//! Records the corpus anew from a real etcd:
//! `cargo run -p setpoint-etcd-tests --example record-corpus [sequences [file...]]`.
//!
//! Each profile gets a file with so many sequences (80 by default), the scenarios get one of their own; if files are
//! named, only those are written. Every file starts from an empty etcd, so each can be replayed by itself.

use std::process::ExitCode;

use setpoint_etcd_tests::corpus::{self, Corpus, FORMAT, Head};
use setpoint_etcd_tests::error::HarnessError;
use setpoint_etcd_tests::generate::{self, FIRST_SEED, Profile};
use setpoint_etcd_tests::peer::EtcdBinaries;
use setpoint_etcd_tests::stage::record_session;
use setpoint_etcd_tests::step::Sequence;

/// Every so many sequences the store is emptied, as in a campaign.
const CHAIN_MAX: usize = 4;

#[tokio::main]
#[expect(clippy::print_stderr, clippy::print_stdout, reason = "a command-line program")]
async fn main() -> ExitCode {
    let sequences = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(80);
    let wanted: Vec<String> = std::env::args().skip(2).collect();
    match record_all(sequences, &wanted).await {
        Ok(files) => {
            for file in files {
                println!("{file}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("record-corpus: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn record_all(sequences: usize, wanted: &[String]) -> Result<Vec<String>, HarnessError> {
    let binaries = EtcdBinaries::find()?;
    let mut files = vec![("scenarios".to_owned(), generate::scenarios())];
    for profile in Profile::ALL {
        let seeds = FIRST_SEED..FIRST_SEED + u64::try_from(sequences).unwrap_or(0);
        let made = seeds
            .enumerate()
            .map(|(number, seed)| generate::sequence_of(profile, seed, number % CHAIN_MAX == CHAIN_MAX - 1));
        files.push((profile.name().to_owned(), made.collect()));
    }
    files.retain(|(name, _)| wanted.is_empty() || wanted.contains(name));
    let mut written = Vec::with_capacity(files.len());
    for (name, sequences) in files {
        written.push(record(&binaries, &name, &sequences).await?);
    }
    Ok(written)
}

async fn record(binaries: &EtcdBinaries, name: &str, sequences: &[Sequence]) -> Result<String, HarnessError> {
    let mut session = record_session(binaries).await?;
    let mut records = Vec::with_capacity(sequences.len());
    for sequence in sequences {
        records.push(session.record(sequence).await?);
    }
    let path = corpus::path(name);
    let corpus = Corpus { head: Head { format: FORMAT, etcd: binaries.version() }, records };
    corpus.write(&path)?;
    let bytes = std::fs::metadata(&path).map(|metadata| metadata.len()).unwrap_or(0);
    Ok(format!("{}: {} sequences, {bytes} bytes", path.display(), sequences.len()))
}
