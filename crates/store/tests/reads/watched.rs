//! An engine in memory that tells a test of each access before it happens, and stores filled command by command.

use std::path::Path;

use bytes::Bytes;
use setpoint_store::command::{Command, Proposal, ProposalId, Put};
use setpoint_store::engine::{Table, Visit, WriteBatch};
use setpoint_store::{Body, Engine, EngineFailure, Entry, MemoryEngine, Position, Size, Store};
use setpoint_types::{NodeId, Timestamp};

/// What a test does at each access.
pub trait Observer: Default + Send + Sync + 'static {
    /// A row is about to be fetched. If false, it is not found.
    fn fetch(&self, table: Table) -> bool;

    /// A scan is about to begin.
    fn scan(&self) {}

    /// A scan is about to show a row.
    fn show(&self) {}
}

#[derive(Default)]
pub struct Watched<O> {
    rows: MemoryEngine,
    pub observer: O,
}

impl<O: Observer> Engine for Watched<O> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, EngineFailure> {
        if self.observer.fetch(table) { self.rows.get(table, key) } else { Ok(None) }
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineFailure> {
        self.observer.scan();
        self.rows.scan(table, from, to, &mut |key, value| {
            self.observer.show();
            visit(key, value)
        })
    }

    fn write(&self, batch: WriteBatch) -> Result<(), EngineFailure> {
        self.rows.write(batch)
    }

    fn flush(&self) -> Result<(), EngineFailure> {
        self.rows.flush()
    }

    fn checkpoint(&self, dir: &Path) -> Result<(), EngineFailure> {
        self.rows.checkpoint(dir)
    }

    fn size(&self) -> Size {
        self.rows.size()
    }

    fn reclaim(&self) -> Result<(), EngineFailure> {
        self.rows.reclaim()
    }
}

/// Applies one command as the next log entry.
pub fn apply(store: &Store, command: Command) {
    let index = store.applied().position.map_or(1, |position| position.index + 1);
    let id = ProposalId { node: NodeId(1), sequence: index };
    let body = Body::Commands { stamp: Timestamp(0), commands: vec![Proposal { id, command }.encode()] };
    let entry = Entry { position: Position { term: 1, index }, body };
    let outcome = store.apply(&[entry], NodeId(1)).expect("the entry applies");
    assert!(outcome.verdicts.iter().all(|(_, verdict)| verdict.is_ok()), "{:?}", outcome.verdicts);
}

/// Puts a key and returns the new revision.
pub fn put(store: &Store, key: &str, value: &str) -> i64 {
    let put = Put { key: key.to_owned().into(), value: value.to_owned().into(), ..Put::default() };
    apply(store, Command::Put(put));
    store.revision().wire()
}
