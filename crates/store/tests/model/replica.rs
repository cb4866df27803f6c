//! A store over one of the engines, which can lose power, be closed and opened, and be copied.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use setpoint_store::command::ProposalId;
use setpoint_store::engine::Table;
use setpoint_store::{
    ChangeSet, Engine, Entry, GrantedLeases, MemoryEngine, RocksEngine, RocksOptions, StepMax, Store, Verdict,
};
use setpoint_types::NodeId;
use tempfile::TempDir;

/// A log entry and what it must lead to.
pub struct Logged {
    pub entry: Entry,
    pub verdicts: Vec<(ProposalId, Verdict)>,
    pub changes: Vec<ChangeSet>,
}

pub struct Replica {
    pub local: NodeId,
    pub store: Store,
    disk: Disk,
}

enum Disk {
    Memory(Arc<MemoryEngine>),
    Rocks { engine: Arc<RocksEngine>, home: TempDir, copies: usize },
}

fn rocks(home: &TempDir, copy: usize) -> Arc<RocksEngine> {
    let options =
        RocksOptions { block_cache_bytes: 1 << 20, row_cache_bytes: 64 << 10, write_buffer_bytes: 1 << 20 };
    Arc::new(RocksEngine::open(&home.path().join(copy.to_string()), &options).expect("the tables open"))
}

impl Replica {
    pub fn in_memory(local: NodeId) -> Self {
        Self::over(local, Disk::Memory(Arc::new(MemoryEngine::new())))
    }

    pub fn on_disk(local: NodeId) -> Self {
        let home = TempDir::new().expect("a temporary directory");
        Self::over(local, Disk::Rocks { engine: rocks(&home, 0), home, copies: 0 })
    }

    fn over(local: NodeId, disk: Disk) -> Self {
        let store = Store::open(disk.engine()).expect("the state loads");
        Self { local, store, disk }
    }

    fn applied(&self) -> usize {
        self.store.applied().position.map_or(0, |position| position.index as usize)
    }

    /// Applies what the log has beyond the replica's position, in chunks of these sizes and the rest at once, and checks
    /// what comes out.
    pub fn catch_up(&self, log: &[Logged], chunks: &[usize]) {
        let mut chunks = chunks.iter();
        while self.applied() < log.len() {
            let rest = &log[self.applied()..];
            let chunk = &rest[..chunks.next().map_or(rest.len(), |size| rest.len().min(*size).max(1))];
            let entries: Vec<Entry> = chunk.iter().map(|logged| logged.entry.clone()).collect();
            let leases = self.store.granted_leases();
            let outcome = self.store.apply(&entries, self.local).expect("the chunk applies");
            self.check_lease_changes(leases);
            let verdicts = chunk.iter().flat_map(|logged| &logged.verdicts);
            let own = verdicts.filter(|(id, _)| id.node == self.local).cloned();
            let own: Vec<_> = own.collect();
            for (verdict, expected) in outcome.verdicts.iter().zip(&own) {
                assert_eq!(verdict, expected);
            }
            assert_eq!(outcome.verdicts.len(), own.len(), "each own proposal has a verdict");
            let changes: Vec<_> = outcome.changes.iter().map(|set| (**set).clone()).collect();
            let expected: Vec<_> = chunk.iter().flat_map(|logged| logged.changes.clone()).collect();
            assert_eq!(changes, expected);
        }
    }

    /// Whoever knew the leases before and is told what changed knows them now.
    fn check_lease_changes(&self, before: GrantedLeases) {
        let mut leases: BTreeMap<_, _> = before.leases.into_iter().map(|lease| (lease.id, lease)).collect();
        let update = self.store.lease_changes(before.at).expect("a chunk has few changes");
        for (id, lease) in update.leases {
            match lease {
                Some(lease) => drop(leases.insert(id, lease)),
                None => drop(leases.remove(&id)),
            }
        }
        let followed = GrantedLeases { leases: leases.into_values().collect(), at: update.at };
        assert_eq!(followed, self.store.granted_leases());
    }

    /// Memory loses everything since the last flush. Tables on disk are closed and opened; `tests/engine` has their crash.
    pub fn restarted(self) -> Self {
        let Self { local, store, disk } = self;
        drop(store);
        let disk = match disk {
            Disk::Memory(engine) => Disk::Memory(Arc::new(engine.crash())),
            Disk::Rocks { engine, home, copies } => {
                drop(Arc::into_inner(engine).expect("only the store shared the engine"));
                Disk::Rocks { engine: rocks(&home, copies), home, copies }
            }
        };
        Self::over(local, disk)
    }

    /// Goes on from a copy of the tables.
    pub fn move_to_checkpoint(&mut self) {
        match &mut self.disk {
            Disk::Memory(engine) => {
                let home = TempDir::new().expect("a temporary directory");
                let dir = home.path().join("copy");
                self.store.checkpoint(&dir).expect("the checkpoint is made");
                *engine = Arc::new(MemoryEngine::open_checkpoint(&dir).expect("the checkpoint opens"));
            }
            Disk::Rocks { engine, home, copies } => {
                *copies += 1;
                self.store.checkpoint(&home.path().join(copies.to_string())).expect("the checkpoint is made");
                *engine = rocks(home, *copies);
            }
        }
        let applied = self.store.applied();
        assert_eq!(self.store.replace(self.disk.engine()).expect("the state loads"), applied);
    }

    pub fn collect_all(&self) {
        while !self.store.collect(StepMax::records(1_000)).expect("the collection goes on").done() {}
    }

    /// All rows, in order.
    pub fn rows(&self) -> Vec<(Table, Vec<u8>, Bytes)> {
        let mut rows = Vec::new();
        for table in Table::ALL {
            let mut visit = |key: &[u8], value: &[u8]| {
                rows.push((table, key.to_vec(), Bytes::copy_from_slice(value)));
                ControlFlow::Continue(())
            };
            self.disk.engine().scan(table, &[], None, &mut visit).expect("the table is read");
        }
        rows
    }
}

impl Disk {
    fn engine(&self) -> Arc<dyn Engine> {
        match self {
            Self::Memory(engine) => engine.clone(),
            Self::Rocks { engine, .. } => engine.clone(),
        }
    }
}
