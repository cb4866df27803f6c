//! The two ways a log fails: it cannot be opened, or it can no longer be written.

use std::io;
use std::sync::Arc;

use crate::codec::CodecError;

/// The log cannot be opened. The node must not start: it might have promised what it can no longer read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("cannot {action} {file} of the raft log")]
    Io {
        action: &'static str,
        file: String,
        #[source]
        source: io::Error,
    },
    #[error("raft log file {file} is damaged at offset {offset}: {damage}")]
    Damaged { file: String, offset: u64, damage: &'static str },
    #[error("raft log file {file} holds a record at offset {offset} that this version cannot read")]
    Unreadable {
        file: String,
        offset: u64,
        #[source]
        source: CodecError,
    },
    #[error("the raft log is incomplete: entries up to index {last} are neither in it nor purged from it")]
    Missing { last: u64 },
}

impl LogError {
    pub(super) fn io(action: &'static str, file: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, file: file.into(), source }
    }
}

/// A write or sync failed. Final: what is on disk is unknown until the log is opened again, so nothing is
/// retried.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the raft log can no longer be written")]
pub struct LogFailure {
    #[source]
    source: Arc<io::Error>,
}

impl LogFailure {
    pub(super) fn new(source: io::Error) -> Self {
        Self { source: Arc::new(source) }
    }

    /// The cause's kind, `StorageFull` for a full disk.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }
}

impl From<LogFailure> for io::Error {
    fn from(failure: LogFailure) -> Self {
        Self::new(failure.kind(), failure)
    }
}
