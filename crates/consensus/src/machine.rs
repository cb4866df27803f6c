//! The boundary to what is replicated onto: committed entries go in, durable positions come out.
//!
//! The server implements it over the store; tests implement it over a list. Nothing here knows Raft's own types: a
//! membership crosses as opaque bytes that only this crate reads. Not here: the verdicts of commands, which the
//! implementation hands to its own waiters.

use std::error::Error;
use std::fmt;
use std::path::Path;

use bytes::Bytes;

use crate::batch::Batch;

/// The place of an entry in the log. A term and an index together name one entry, for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    pub term: u64,
    pub index: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.term, self.index)
    }
}

/// How far a state machine has come, as it stored it together with its data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The last entry applied; none before the first.
    pub position: Option<Position>,
    /// The bytes of the last `Payload::Membership` applied at or before `position`.
    pub membership: Option<Bytes>,
}

/// One committed log entry.
#[derive(Clone, Debug)]
pub struct Committed {
    pub position: Position,
    pub payload: Payload,
}

/// What a committed entry carries. Each one moves the position, also those that carry nothing.
#[derive(Clone, Debug)]
pub enum Payload {
    Blank,
    Batch(Batch),
    /// Opaque; to be stored and given back as `Applied::membership`.
    Membership(Bytes),
}

/// This replica can no longer be trusted (disk, corruption): the node that hosts it stops.
#[derive(Debug, thiserror::Error)]
#[error("the state machine failed")]
pub struct MachineFailure(#[source] Box<dyn Error + Send + Sync>);

impl MachineFailure {
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}

/// What is replicated onto.
///
/// All calls may block. `apply` and `install` come from one thread, never at the same time; `flush` and `checkpoint`
/// come from other threads and may run beside them.
pub trait Machine: Send + Sync + 'static {
    /// How far the state has come. After a restart: what survived it.
    fn applied(&self) -> Result<Applied, MachineFailure>;

    /// Applies consecutive entries in order. The last position, and the membership if there is one among them, are
    /// stored atomically with the data. When it returns, local reads see the effects.
    fn apply(&self, entries: Vec<Committed>) -> Result<(), MachineFailure>;

    /// Makes what is applied durable, so that the log below it may be dropped. Returns what is durable at least.
    fn flush(&self) -> Result<Applied, MachineFailure>;

    /// Writes the state as files into `directory`, which exists and is empty: plain files, no folders. Returns exactly
    /// what the files contain, which may be newer than the last `flush`.
    fn checkpoint(&self, directory: &Path) -> Result<Applied, MachineFailure>;

    /// Replaces the whole state with the files in `directory`, made by another replica's `checkpoint`. They are on the
    /// same file system and may be moved. When it returns, the new state is durable and local reads see it.
    fn install(&self, directory: &Path) -> Result<Applied, MachineFailure>;
}
