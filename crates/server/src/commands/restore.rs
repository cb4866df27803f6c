//! `setpointd restore`: makes a data folder from a backup, for the first node of a new cluster.
//!
//! Keys, history, leases and revisions are kept. Who was a member and where the log stood are not: the folder starts a
//! log of its own, and the cluster that is founded on it has its own id, so that nothing of the old one can mix with it,
//! nor with what is founded on another backup (`restored`).

use std::fs;
use std::path::{Path, PathBuf};

use setpoint_apiserver::backup::{self, BackupError};
use setpoint_apiserver::replica::{GenerationError, Generations};
use setpoint_store::{EngineFailure, RocksOptions, Store};

use crate::engines::RocksEngines;
use crate::options::RestoreArgs;
use crate::restored::{self, MarkError};

#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error("the data folder {path} is not empty; give one that does not exist yet")]
    NotEmpty { path: PathBuf },
    #[error("the data folder {path} cannot be made")]
    Folder {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error(transparent)]
    Mark(#[from] MarkError),
    #[error("the backup's tables cannot be used")]
    State(#[from] GenerationError),
    #[error("the backup's tables cannot be read")]
    Engine(#[from] EngineFailure),
}

pub fn run(args: &RestoreArgs) -> Result<String, RestoreError> {
    let folder = &args.data_dir;
    let failed = |source| RestoreError::Folder { path: folder.clone(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    if fs::read_dir(folder).map_err(failed)?.next().is_some() {
        return Err(RestoreError::NotEmpty { path: folder.clone() });
    }
    let restored = restore(&args.file, folder);
    if restored.is_err() {
        // The folder was empty when we began.
        let _ = fs::remove_dir_all(folder);
    }
    restored
}

fn restore(file: &Path, folder: &Path) -> Result<String, RestoreError> {
    restored::begin(folder)?;
    let unpacked = folder.join("unpacked");
    let hash = backup::unpack(file, &unpacked)?;
    let engines = Box::new(RocksEngines(RocksOptions::default()));
    let (mut generations, empty) = Generations::open(&folder.join("state"), engines)?;
    drop(empty);
    let engine = generations.switch_to(&unpacked)?;
    generations.remove_stale();
    Store::detach(&*engine)?;
    let store = Store::open(engine)?;
    restored::finish(folder, &hash)?;
    Ok(format!(
        "{} restored to {}: {} keys at revision {}. Start it with --data-dir {0} and --initial-cluster.",
        file.display(),
        folder.display(),
        store.key_count(),
        store.revision()
    ))
}
