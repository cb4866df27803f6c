//! openraft's own conformance suite, on real files. Its state machine is a stand-in: only the log is under
//! test.

use std::io;
use std::sync::Arc;

use futures::{Stream, TryStreamExt};
use openraft::alias::{SnapshotMetaOf, SnapshotOf, StoredMembershipOf};
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::{EntryPayload, OptionalSend, StorageError};
use setpoint_consensus::log::{DirFs, Ignore, LogId, LogOptions, LogStore, TypeConfig, open};
use tempfile::TempDir;

use crate::kit::tiny;

#[derive(Clone, Default)]
struct Machine {
    applied: Option<LogId>,
    membership: StoredMembershipOf<TypeConfig>,
    snapshot: Arc<parking_lot::Mutex<Option<SnapshotMetaOf<TypeConfig>>>>,
}

impl RaftStateMachine<TypeConfig> for Machine {
    type SnapshotData = ();
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembershipOf<TypeConfig>), io::Error> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<TypeConfig>, io::Error>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            self.applied = Some(entry.log_id);
            if let EntryPayload::Membership(membership) = entry.payload {
                self.membership = StoredMembershipOf::<TypeConfig>::new(Some(entry.log_id), membership);
            }
            if let Some(responder) = responder {
                responder.send(());
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMetaOf<TypeConfig>, (): ()) -> Result<(), io::Error> {
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        *self.snapshot.lock() = Some(meta.clone());
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<SnapshotOf<TypeConfig, ()>>, io::Error> {
        Ok(self.snapshot.lock().clone().map(|meta| SnapshotOf::<TypeConfig, ()> { meta, snapshot: () }))
    }
}

impl RaftSnapshotBuilder<TypeConfig> for Machine {
    type SnapshotData = ();

    async fn build_snapshot(&mut self) -> Result<SnapshotOf<TypeConfig, ()>, io::Error> {
        let meta = SnapshotMetaOf::<TypeConfig> {
            last_log_id: self.applied,
            last_membership: self.membership.clone(),
        };
        *self.snapshot.lock() = Some(meta.clone());
        Ok(SnapshotOf::<TypeConfig, ()> { meta, snapshot: () })
    }
}

struct Builder(LogOptions);

impl StoreBuilder<TypeConfig, LogStore, Machine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, LogStore, Machine), StorageError<TypeConfig>> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let fs = DirFs::open(directory.path()).expect("the directory is ours");
        let (store, writer) =
            open(Arc::new(fs), self.0.clone(), Arc::new(Ignore)).expect("an empty directory opens");
        writer.spawn().expect("a thread starts");
        Ok((directory, store, Machine::default()))
    }
}

#[tokio::test]
async fn openraft_accepts_the_log() {
    let small = LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() };
    Suite::test_all(Builder(small)).await.expect("the suite passes");
}

#[tokio::test]
async fn openraft_accepts_a_log_that_reads_its_files() {
    let uncached = LogOptions { tail_entries_max: 0, ..tiny() };
    Suite::test_all(Builder(uncached)).await.expect("the suite passes");
}
