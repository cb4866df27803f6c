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
    #[error("there is no backup {file}")]
    NoBackup { file: PathBuf },
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
    if !args.file.is_file() {
        return Err(RestoreError::NoBackup { file: args.file.clone() });
    }
    let theirs = folder.exists();
    fs::create_dir_all(folder).map_err(failed)?;
    if fs::read_dir(folder).map_err(failed)?.next().is_some() {
        return Err(RestoreError::NotEmpty { path: folder.clone() });
    }
    let restored = restore(&args.file, folder);
    if restored.is_err() {
        clean_up(folder, theirs);
    }
    restored
}

/// The folder was empty when we began. If it was there, it stays: it may be a mount point, or have an owner.
fn clean_up(folder: &Path, theirs: bool) {
    if !theirs {
        let _ = fs::remove_dir_all(folder);
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
    }
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
        "{} restored to {}: {} keys at revision {}. Start it with --data-dir {1} and --initial-cluster.",
        file.display(),
        folder.display(),
        store.key_count(),
        store.revision()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_restore_leaves_the_folder_as_it_was() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (file, theirs) = (folder.path().join("backup.db"), folder.path().join("theirs"));
        let ours = folder.path().join("ours");
        let run = |data_dir: &Path| {
            super::run(&RestoreArgs { file: file.clone(), data_dir: data_dir.to_owned() })
                .expect_err("nothing that could be restored")
        };
        assert!(matches!(run(&ours), RestoreError::NoBackup { .. }));
        assert!(!ours.exists());
        fs::write(&file, "no backup").expect("written");
        fs::create_dir(&theirs).expect("made");
        assert!(matches!(run(&theirs), RestoreError::Backup(_)));
        assert!(matches!(run(&ours), RestoreError::Backup(_)));
        assert_eq!(fs::read_dir(&theirs).expect("it is still there").count(), 0);
        assert!(!ours.exists());
    }
}
