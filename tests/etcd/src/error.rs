//! What can keep the harness from comparing. A difference between the servers is not an error: see `compare`.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    #[error("no etcd to compare with: {reason}")]
    NoEtcd { reason: String },
    #[error(
        "there is no setpointd at {}; build it with `cargo build -p setpoint-server`, or set SETPOINTD to its path",
        looked_at.display()
    )]
    NoSetpointd { looked_at: PathBuf },
    #[error("there is no program at {}; build it with `cargo build --workspace --bins`", looked_at.display())]
    NoProgram { looked_at: PathBuf },
    #[error("could not start {program}")]
    Spawn { program: PathBuf, source: std::io::Error },
    #[error("{name} exited during start ({status})\n{log}")]
    ExitedEarly { name: String, status: std::process::ExitStatus, log: String },
    #[error("{name} did not get ready within {seconds} s\n{log}")]
    NotReady { name: String, seconds: u64, log: String },
    #[error("no free port between {first} and {last}")]
    NoPort { first: u16, last: u16 },
    #[error("could not reach {endpoint}")]
    Unreachable { endpoint: String, source: tonic::transport::Error },
    #[error("the server does not answer reads: {message}")]
    NotServing { message: String },
    #[error("the reference's own watch did not deliver revision {revision}")]
    HistoryLost { revision: i64 },
    #[error("the servers do not start from the same revision: reference {reference}, subject {subject}")]
    UnequalStart { reference: i64, subject: i64 },
    #[error("{name} ended during step {index} of seed {seed}: {step}\n{log}")]
    Fallen { name: String, seed: u64, index: usize, step: String, log: String },
    #[error(
        "the reference broke a rule or kept the harness waiting in step {index} of seed {seed}: {step}\n{answer}"
    )]
    Irregular { seed: u64, index: usize, step: String, answer: String },
    #[error("one of the pairs running side by side broke off")]
    Lane { source: tokio::task::JoinError },
    #[error("the record holds {recorded} answers for {steps} steps")]
    RecordTooShort { recorded: usize, steps: usize },
    #[error("could not read or write {}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{} does not hold what it should", path.display())]
    Content { path: PathBuf, source: serde_json::Error },
    #[error("could not signal process {pid}")]
    Signal { pid: u32, source: std::io::Error },
    #[error("could not make a temporary directory")]
    TempDir { source: std::io::Error },
}
