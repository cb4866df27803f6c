//! The ordered storage under the state machine: three tables, atomic batches, point reads and scans.
//!
//! A write is visible when `write` returns and durable only after `flush`; a crash loses a suffix of the batches, never
//! a part of one and never one before another (invariant S5). The Raft log brings back what was lost.
//!
//! `RocksEngine` keeps tables on disk (feature `rocksdb`), [`MemoryEngine`] in memory for tests and simulation. Not here: what rows mean.

#[cfg(feature = "rocksdb")]
mod cache;
mod memory;
#[cfg(feature = "rocksdb")]
mod rocks;

use std::ops::ControlFlow;
use std::path::Path;

use bytes::Bytes;

pub use memory::MemoryEngine;
#[cfg(feature = "rocksdb")]
pub use rocks::{RocksEngine, RocksOptions};

use crate::encoding::RecordId;

/// The tables of [`crate::encoding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    Records,
    Keys,
    Meta,
}

impl Table {
    pub const ALL: [Table; 3] = [Table::Records, Table::Keys, Table::Meta];

    pub fn name(self) -> &'static str {
        match self {
            Self::Records => "records",
            Self::Keys => "keys",
            Self::Meta => "meta",
        }
    }
}

/// This replica's storage failed. It can no longer be trusted, and the caller stops the node.
#[derive(Debug, thiserror::Error)]
pub enum EngineFailure {
    #[error("the storage engine could not {operation}")]
    Io {
        operation: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error(transparent)]
    Damaged(#[from] crate::encoding::Damaged),
}

/// Changes that take effect together.
#[derive(Debug, Default)]
pub struct WriteBatch {
    pub operations: Vec<Operation>,
}

#[derive(Debug)]
pub enum Operation {
    Put {
        table: Table,
        key: Vec<u8>,
        value: Vec<u8>,
    },
    Delete {
        table: Table,
        key: Vec<u8>,
    },
    /// Deletes a row that was put exactly once and never deleted before. Engines may do this more cheaply.
    DeleteOnce {
        table: Table,
        key: Vec<u8>,
    },
}

impl WriteBatch {
    pub fn put(&mut self, table: Table, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.operations.push(Operation::Put { table, key: key.into(), value: value.into() });
    }

    pub fn delete(&mut self, table: Table, key: impl Into<Vec<u8>>) {
        self.operations.push(Operation::Delete { table, key: key.into() });
    }

    pub fn delete_once(&mut self, table: Table, key: impl Into<Vec<u8>>) {
        self.operations.push(Operation::DeleteOnce { table, key: key.into() });
    }

    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }
}

/// Called for each row of a scan; breaking ends it.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// Called for each record that was asked for, with its row.
pub type VisitRecord<'a> = dyn FnMut(RecordId, Option<&[u8]>) -> ControlFlow<()> + 'a;

/// How much room the tables take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Bytes on disk, garbage included.
    pub total: u64,
    /// An estimate of the bytes that live rows take.
    pub live: u64,
}

pub trait Engine: Send + Sync + 'static {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, EngineFailure>;

    /// Reads several rows of a table; the answers are in the order of the keys.
    fn get_many(&self, table: Table, keys: &[Vec<u8>]) -> Result<Vec<Option<Bytes>>, EngineFailure> {
        keys.iter().map(|key| self.get(table, key)).collect()
    }

    /// Visits the rows of records that are named in ascending order, none for one that is not there, until the visitor breaks.
    fn visit_records(
        &self,
        ids: &mut dyn Iterator<Item = RecordId>,
        visit: &mut VisitRecord<'_>,
    ) -> Result<(), EngineFailure> {
        for id in ids {
            let row = self.get(Table::Records, &id.encode())?;
            if visit(id, row.as_deref()).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Visits the rows of `[from, to)` in order, all as they were when the scan began.
    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineFailure>;

    /// Applies a batch. Batches written by one thread are recovered in order.
    fn write(&self, batch: WriteBatch) -> Result<(), EngineFailure>;

    /// Returns once everything written before the call is durable.
    fn flush(&self) -> Result<(), EngineFailure>;

    /// Puts a consistent, durable copy of the tables into `dir`, which must not exist.
    fn checkpoint(&self, dir: &Path) -> Result<(), EngineFailure>;

    fn size(&self) -> Size;

    /// Gives space back to the file system, in the background of other work.
    fn reclaim(&self) -> Result<(), EngineFailure>;
}
