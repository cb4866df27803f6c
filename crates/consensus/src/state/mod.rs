//! The adapter between openraft and a `Machine`: committed entries in chunks, positions out, snapshots by reference.
//!
//! The machine may block, so it runs on a thread of its own (`applier`). Building a snapshot only flushes the machine:
//! that is all the log needs in order to be cut. Files are made when a follower asks for them (`snapshot`).

mod applier;
mod progress;

use std::io;
use std::sync::Arc;

use futures::{Stream, TryStreamExt};
use openraft::storage::{ApplyResponder, EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, RaftSnapshotBuilder};

pub use self::progress::Progress;

use self::applier::Applier;
use crate::codec::encoded_len;
use crate::machine::{Committed, Machine, Payload};
use crate::membership::MembershipRecord;
use crate::raft::{Entry, LogId, Snapshot, SnapshotMeta, StoredMembership, TypeConfig};
use crate::snapshot::{Depot, SnapshotFiles};

/// A chunk is handed over when it has so many entries or bytes: small enough that readers see progress, large enough
/// that the hand-over costs nothing.
const CHUNK_ENTRIES: usize = 256;
const CHUNK_BYTES: usize = 1 << 20;

pub struct StateMachine {
    machine: Arc<dyn Machine>,
    applier: Applier,
    progress: Arc<Progress>,
    depot: Arc<Depot>,
}

impl StateMachine {
    pub fn new(machine: Arc<dyn Machine>, progress: Arc<Progress>, depot: Arc<Depot>) -> io::Result<Self> {
        let applier = Applier::spawn(Arc::clone(&machine))?;
        Ok(Self { machine, applier, progress, depot })
    }

    async fn apply_chunk(&mut self, chunk: Chunk) -> io::Result<()> {
        let Some(last) = chunk.entries.last().map(|entry| entry.position) else { return Ok(()) };
        self.progress.note_committed(last);
        self.applier.apply(chunk.entries).await?;
        self.progress.set_applied(last.index);
        for responder in chunk.responders {
            responder.send(());
        }
        Ok(())
    }

    fn committed(&self, entry: Entry) -> Committed {
        let payload = match entry.payload {
            EntryPayload::Blank => Payload::Blank,
            EntryPayload::Normal(batch) => Payload::Batch(batch),
            EntryPayload::Membership(membership) => {
                let stored = StoredMembership::new(Some(entry.log_id), membership);
                Payload::Membership(self.progress.advance_membership(stored).encode())
            }
        };
        Committed { position: entry.log_id.into(), payload }
    }
}

#[derive(Default)]
struct Chunk {
    entries: Vec<Committed>,
    responders: Vec<ApplyResponder<TypeConfig>>,
    bytes: usize,
}

impl Chunk {
    fn is_full(&self) -> bool {
        self.entries.len() >= CHUNK_ENTRIES || self.bytes >= CHUNK_BYTES
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = SnapshotFiles;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        let applied = self.machine.applied().map_err(io::Error::other)?;
        let record = MembershipRecord::decode(applied.membership.as_ref()).map_err(io::Error::other)?;
        Ok((applied.position.map(LogId::from), record.stored().clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + Send,
    {
        let mut chunk = Chunk::default();
        while let Some((entry, responder)) = entries.try_next().await? {
            chunk.bytes += encoded_len(&entry);
            chunk.entries.push(self.committed(entry));
            chunk.responders.extend(responder);
            if chunk.is_full() {
                self.apply_chunk(std::mem::take(&mut chunk)).await?;
            }
        }
        self.apply_chunk(chunk).await
    }

    async fn try_create_snapshot_builder(&mut self, _force: bool) -> Option<Builder> {
        Some(self.get_snapshot_builder().await)
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        Builder { depot: Arc::clone(&self.depot) }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, files: SnapshotFiles) -> io::Result<()> {
        let SnapshotFiles::Received(directory) = files else {
            // Only a state machine that forgets its state at restart is given back its own snapshot.
            return Err(io::Error::other("the state machine lags behind its own snapshot"));
        };
        let applied = self.applier.install(directory).await?;
        if applied.position.map(LogId::from) != meta.last_log_id {
            return Err(io::Error::other("the installed snapshot is not the one that was announced"));
        }
        let record = MembershipRecord::decode(applied.membership.as_ref()).map_err(io::Error::other)?;
        self.progress.replace(meta.last_log_id.map(|log_id| log_id.index), record);
        self.depot.record(meta.clone());
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        let meta = self.depot.current();
        Ok(meta.map(|meta| Snapshot { meta, snapshot: SnapshotFiles::Offered(Arc::clone(&self.depot)) }))
    }
}

/// Builds what openraft calls a snapshot, beside the entries that are being applied.
pub struct Builder {
    depot: Arc<Depot>,
}

impl RaftSnapshotBuilder<TypeConfig> for Builder {
    type SnapshotData = SnapshotFiles;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let meta = self.depot.flush().await?;
        Ok(Snapshot { meta, snapshot: SnapshotFiles::Offered(Arc::clone(&self.depot)) })
    }
}
