//! Tables in memory: the engine of model tests and of the simulation.
//!
//! `flush` marks what is durable and `crash` throws away the rest, so a power loss can be played without a disk.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::ops::{Bound, ControlFlow};
use std::path::Path;

use bytes::Bytes;
use parking_lot::RwLock;

use super::{Engine, EngineFailure, Operation, Size, Table, Visit, WriteBatch};

type Rows = BTreeMap<(Table, Vec<u8>), Bytes>;

#[derive(Default)]
pub struct MemoryEngine {
    rows: RwLock<Rows>,
    durable: RwLock<Rows>,
}

impl MemoryEngine {
    pub fn new() -> Self {
        Self::default()
    }

    /// The state a power loss would leave behind.
    pub fn crash(&self) -> Self {
        let durable = self.durable.read().clone();
        Self { rows: RwLock::new(durable.clone()), durable: RwLock::new(durable) }
    }

    /// Reads what [`Engine::checkpoint`] wrote.
    pub fn open_checkpoint(dir: &Path) -> Result<Self, EngineFailure> {
        let mut rows = Rows::new();
        for table in Table::ALL {
            let mut file = std::fs::File::open(dir.join(table.name())).map_err(io("open a checkpoint"))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map_err(io("read a checkpoint"))?;
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let key = take(&mut rest)?;
                let value = take(&mut rest)?;
                rows.insert((table, key.to_vec()), Bytes::copy_from_slice(value));
            }
        }
        Ok(Self { rows: RwLock::new(rows.clone()), durable: RwLock::new(rows) })
    }
}

fn take<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], EngineFailure> {
    let damaged = || EngineFailure::Damaged(crate::encoding::Damaged { what: "checkpoint" });
    let (length, tail) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
    let (bytes, tail) = tail.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(damaged)?;
    *rest = tail;
    Ok(bytes)
}

fn io(operation: &'static str) -> impl Fn(std::io::Error) -> EngineFailure {
    move |source| EngineFailure::Io { operation, source: source.into() }
}

impl Engine for MemoryEngine {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, EngineFailure> {
        // Recursive: the visitor of a scan may read rows, also while a writer waits for that scan to end.
        Ok(self.rows.read_recursive().get(&(table, key.to_vec())).cloned())
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineFailure> {
        let rows = self.rows.read();
        let start = Bound::Included((table, from.to_vec()));
        for ((row_table, key), value) in rows.range((start, Bound::Unbounded)) {
            if *row_table != table || to.is_some_and(|to| &key[..] >= to) {
                break;
            }
            if let ControlFlow::Break(()) = visit(key, value) {
                break;
            }
        }
        Ok(())
    }

    fn write(&self, batch: WriteBatch) -> Result<(), EngineFailure> {
        let mut rows = self.rows.write();
        for operation in batch.operations {
            match operation {
                Operation::Put { table, key, value } => {
                    rows.insert((table, key), value.into());
                }
                Operation::Delete { table, key } => {
                    rows.remove(&(table, key));
                }
                Operation::DeleteOnce { table, key } => {
                    let removed = rows.remove(&(table, key));
                    // S6: an engine may forget such a row for good only if it was put once.
                    assert!(removed.is_some(), "S6: a row was deleted once that does not exist");
                }
            }
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), EngineFailure> {
        *self.durable.write() = self.rows.read().clone();
        Ok(())
    }

    fn checkpoint(&self, dir: &Path) -> Result<(), EngineFailure> {
        self.flush()?;
        std::fs::create_dir(dir).map_err(io("create a checkpoint"))?;
        let rows = self.rows.read();
        for table in Table::ALL {
            let mut bytes = Vec::new();
            for ((_, key), value) in rows.iter().filter(|((row_table, _), _)| *row_table == table) {
                for part in [&key[..], &value[..]] {
                    bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
                    bytes.extend_from_slice(part);
                }
            }
            let mut file =
                std::fs::File::create(dir.join(table.name())).map_err(io("create a checkpoint"))?;
            file.write_all(&bytes).map_err(io("write a checkpoint"))?;
        }
        Ok(())
    }

    fn size(&self) -> Size {
        let bytes = self.rows.read().iter().map(|((_, key), value)| (key.len() + value.len()) as u64).sum();
        Size { total: bytes, live: bytes }
    }

    fn reclaim(&self) -> Result<(), EngineFailure> {
        Ok(())
    }
}
