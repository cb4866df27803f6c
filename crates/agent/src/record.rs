//! What the agent knows of its replicas without the server: one file each, written before anything is done that depends on it.
//!
//! ```text
//! DIR/replicas/UID/record.json   the replica, its binding, and what of its life has to survive
//! DIR/replicas/UID/work/         its own folder: where it runs, and where its artifacts are
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use setpoint_types::kinds::{ReplicaEndpoint, ReplicaSpec};
use setpoint_types::{Epoch, Generation, Timestamp, Uid};

use crate::durable;
use crate::lifecycle::Memory;

/// A replica that this agent has, or had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub namespace: String,
    pub name: String,
    pub uid: Uid,
    pub generation: Generation,
    /// The binding's name is the replica's.
    pub binding: Uid,
    /// Of the node's lease when it was bound.
    pub node_epoch: Epoch,
    pub spec: ReplicaSpec,
    /// Its ports, those that the agent chose included.
    pub endpoints: Vec<ReplicaEndpoint>,
    pub memory: Memory,
    /// The server knows that it has ended, and has given back what was reserved. Kept a while for what it wrote.
    pub released: Option<Timestamp>,
}

/// The records of an agent.
#[derive(Clone, Debug)]
pub struct Records {
    folder: PathBuf,
}

/// A record that is there and cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: the record of a replica cannot be read: mend it, or remove its folder once nothing of it runs", path.display())]
pub struct Damaged {
    pub path: PathBuf,
    #[source]
    pub source: io::Error,
}

impl Records {
    pub fn new(state: &Path) -> io::Result<Self> {
        let folder = state.join("replicas");
        fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }

    fn of(&self, uid: &Uid) -> PathBuf {
        self.folder.join(uid.as_str())
    }

    /// The replica's own folder.
    pub fn work(&self, uid: &Uid) -> PathBuf {
        self.of(uid).join("work")
    }

    pub fn save(&self, record: &Record) -> io::Result<()> {
        let folder = self.of(&record.uid);
        if !folder.exists() {
            fs::create_dir_all(self.work(&record.uid))?;
            durable::sync_parent(&folder)?;
        }
        durable::replace(&folder.join("record.json"), record)
    }

    /// All that are there. A folder without a record is one that was being made or removed.
    pub fn load(&self) -> io::Result<(Vec<Record>, Vec<Damaged>)> {
        let (mut records, mut damaged) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(&self.folder)? {
            let folder = entry?.path();
            let path = folder.join("record.json");
            match durable::read::<Record>(&path) {
                Ok(Some(record)) => records.push(record),
                Ok(None) => fs::remove_dir_all(&folder)?,
                Err(source) => damaged.push(Damaged { path, source }),
            }
        }
        records.sort_by(|one, other| one.uid.cmp(&other.uid));
        Ok((records, damaged))
    }

    /// Of one replica, if it is, or was, here.
    pub fn find(&self, uid: &Uid) -> Option<Record> {
        // It comes from the network, and must not lead anywhere else.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if uid.as_str().is_empty() || !uid.as_str().bytes().all(is_plain) {
            return None;
        }
        durable::read(&self.of(uid).join("record.json")).ok()?
    }

    /// Nothing of the replica may be there any more.
    pub fn remove(&self, uid: &Uid) -> io::Result<()> {
        let folder = self.of(uid);
        // The record first: what is left of a folder without one is removed at the next start.
        for removed in [fs::remove_file(folder.join("record.json")), fs::remove_dir_all(&folder)] {
            if let Err(error) = removed
                && error.kind() != io::ErrorKind::NotFound
            {
                return Err(error);
            }
        }
        Ok(())
    }
}
