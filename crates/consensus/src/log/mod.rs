//! The Raft log on disk: votes, entries and their bookkeeping in preallocated segment files, with one sync
//! per batch.
//!
//! ```text
//! LogStore ── operations ──▶ Queue ── batches ──▶ LogWriter ── one write, one sync ──▶ segments (LogFs)
//!     │ at once                                        │ once durable                       ▲
//!     ▼                                                ▼                                    │ what left the tail
//!   View: outline, tail of recent entries, index of places ◀─────────────────────────── LogReader
//! ```
//!
//! `LogStore` changes the view at once and returns; the writer makes it durable in the same order. What the
//! writer has confirmed survives power loss; what it has not may vanish, but only from the end. Damage
//! anywhere else stops the node at start (`recovery`). Why this is not an existing engine: docs/adr/0002.
//!
//! Not here: how entries are encoded (`codec`), and everything about snapshots.

mod error;
mod fs;
mod growth;
mod index;
mod memory;
mod options;
mod outline;
mod pledge;
mod queue;
mod reader;
mod record;
mod recovery;
mod segment;
mod spare;
mod store;
mod tail;
mod view;
mod writer;

pub use error::{LogError, LogFailure};
pub use fs::{DirFs, LogFile, LogFs, begun};
pub use growth::Growth;
pub use memory::MemoryFs;
pub use options::{Ignore, LogObserver, LogOptions, SyncedBatch};
pub use pledge::Pledge;
pub use reader::LogReader;
pub use recovery::open;
pub use store::LogStore;
pub use writer::{LogThread, LogWriter};

/// For this crate's own tests and benchmark of the log; the rest of the workspace never names openraft's
/// types.
#[doc(hidden)]
pub use crate::raft::{Entry, LogId, TypeConfig, Vote};
