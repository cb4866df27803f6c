//! Snapshots: whole states, made of files, sent to followers whose part of the log is gone.
//!
//! openraft asks for a snapshot long before anybody needs its files, because a snapshot is its permission to cut the
//! log. For that the state only has to be durable, so until a follower asks there are no files: a snapshot is a
//! promise of the `Depot` to make a checkpoint at least that new. `send` keeps the promise, `receive` is the other end.

mod depot;
mod receive;
mod send;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

pub use self::depot::{Depot, DepotError};
pub use self::receive::Receiver;
pub use self::send::send;

/// The data of a snapshot, as openraft carries it around.
pub enum SnapshotFiles {
    /// Ours: files are made when they are needed.
    Offered(Arc<Depot>),
    /// Another node's: complete and durable in this directory.
    Received(PathBuf),
}

impl fmt::Debug for SnapshotFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offered(_) => f.write_str("Offered"),
            Self::Received(directory) => write!(f, "Received({})", directory.display()),
        }
    }
}
