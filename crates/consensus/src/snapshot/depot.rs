//! What this node can offer as a snapshot: the last durable position, and a checkpoint at least that new on demand.
//!
//! Nothing is remembered on disk. After a restart everything the machine still has is durable, so that is the snapshot.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tracing::warn;

use crate::codec::CodecError;
use crate::machine::{Applied, Machine, MachineFailure};
use crate::membership::MembershipRecord;
use crate::raft::{LogId, SnapshotMeta};

#[derive(Debug, thiserror::Error)]
pub enum DepotError {
    #[error("the state machine could not be read")]
    Machine(#[source] MachineFailure),
    #[error("the state machine returned a membership that cannot be read")]
    Membership(#[source] CodecError),
    #[error("the checkpoint directory {} could not be prepared", directory.display())]
    Directory {
        directory: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the checkpoint is older than the snapshot it stands for")]
    Stale,
    #[error("the runtime is shutting down")]
    Stopped,
}

pub struct Depot {
    machine: Arc<dyn Machine>,
    directory: PathBuf,
    current: Mutex<Option<SnapshotMeta>>,
    /// One checkpoint at a time: it pins files that the machine would otherwise have deleted.
    sending: Arc<Semaphore>,
}

impl Depot {
    /// Flushes the machine and offers what it has. Removes what an earlier run left in `directory`.
    pub fn open(machine: Arc<dyn Machine>, directory: PathBuf) -> Result<Self, DepotError> {
        empty_directory(&directory)
            .map_err(|source| DepotError::Directory { directory: directory.clone(), source })?;
        let applied = machine.flush().map_err(DepotError::Machine)?;
        let current = applied.position.is_some().then(|| meta_of(&applied)).transpose()?;
        Ok(Self { machine, directory, current: Mutex::new(current), sending: Arc::new(Semaphore::new(1)) })
    }

    pub fn current(&self) -> Option<SnapshotMeta> {
        self.current.lock().clone()
    }

    /// Whether somebody is being sent a checkpoint.
    pub fn is_lent(&self) -> bool {
        self.sending.available_permits() == 0
    }

    /// Takes note of a state that is durable. An older one than is known changes nothing.
    pub fn record(&self, meta: SnapshotMeta) {
        let mut current = self.current.lock();
        if current.as_ref().and_then(|known| known.last_log_id) < meta.last_log_id {
            *current = Some(meta);
        }
    }

    pub async fn flush(&self) -> io::Result<SnapshotMeta> {
        let machine = Arc::clone(&self.machine);
        let applied = spawn_blocking(move || machine.flush()).await?.map_err(io::Error::other)?;
        let meta = meta_of(&applied).map_err(io::Error::other)?;
        self.record(meta.clone());
        Ok(meta)
    }

    /// Makes the files of a snapshot no older than `at_least`. Waits while another one is in use.
    pub async fn checkpoint(&self, at_least: Option<LogId>) -> Result<Checkpoint, DepotError> {
        let turn = Arc::clone(&self.sending).acquire_owned().await.map_err(|_| DepotError::Stopped)?;
        let (machine, directory) = (Arc::clone(&self.machine), self.directory.clone());
        // The turn stays with the files, also if nobody waits for them any more.
        let made = spawn_blocking(move || {
            let files = Files { directory, turn: Some(turn) };
            empty_directory(&files.directory)
                .map_err(|source| DepotError::Directory { directory: files.directory.clone(), source })?;
            let applied = machine.checkpoint(&files.directory).map_err(DepotError::Machine)?;
            Ok((files, applied))
        });
        let (files, applied) = made.await.map_err(|_| DepotError::Stopped)??;
        let meta = meta_of(&applied)?;
        if meta.last_log_id < at_least {
            return Err(DepotError::Stale);
        }
        let membership = applied.membership.unwrap_or_default();
        Ok(Checkpoint { last_log_id: meta.last_log_id, membership, files })
    }
}

fn meta_of(applied: &Applied) -> Result<SnapshotMeta, DepotError> {
    let record = MembershipRecord::decode(applied.membership.as_ref()).map_err(DepotError::Membership)?;
    Ok(SnapshotMeta {
        last_log_id: applied.position.map(LogId::from),
        last_membership: record.stored().clone(),
    })
}

/// The files of one snapshot, deleted soon after this value is gone.
pub struct Checkpoint {
    pub last_log_id: Option<LogId>,
    /// As the machine keeps it.
    pub membership: Bytes,
    files: Files,
}

impl Checkpoint {
    pub fn directory(&self) -> &Path {
        &self.files.directory
    }
}

struct Files {
    directory: PathBuf,
    /// Taken when the files are to go: the next checkpoint waits until they are gone.
    turn: Option<OwnedSemaphorePermit>,
}

impl Drop for Files {
    fn drop(&mut self) {
        let (directory, turn) = (std::mem::take(&mut self.directory), self.turn.take());
        let remove = move || {
            if let Err(error) = fs::remove_dir_all(&directory) {
                warn!(%error, directory = %directory.display(), "a checkpoint could not be removed");
            }
            drop(turn);
        };
        // The last link to a large file takes its data with it, which may take a while: not on a thread of the runtime.
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}

pub(super) fn empty_directory(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::create_dir_all(directory)
}
