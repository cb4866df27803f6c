//! The mark of a data folder that was made from a backup: which one.
//!
//! A cluster that is founded on a backup is another cluster than the one the backup was taken of, and than one founded
//! on another backup, even if all its settings are the same: their histories differ. So the backup's checksum becomes
//! part of the cluster's id (`identity`), and nodes that do not belong together refuse each other.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Says which backup the folder holds; written when it holds all of it.
const FILE: &str = "restored";
/// There while the folder is being filled.
const DRAFT: &str = "restored.unfinished";

/// The SHA-256 that a backup ends with.
pub type BackupHash = [u8; 32];

#[derive(Debug, thiserror::Error)]
pub enum MarkError {
    #[error("{path} cannot be read or written")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "{folder} holds a part of a backup: its restoring was interrupted; empty the folder and restore again"
    )]
    Unfinished { folder: PathBuf },
    #[error("{path} is damaged; empty the folder and restore the backup again")]
    Damaged { path: PathBuf },
}

/// Marks the folder as incomplete until `finish`.
pub fn begin(folder: &Path) -> Result<(), MarkError> {
    let path = folder.join(DRAFT);
    let begin = || {
        File::create(&path)?.sync_all()?;
        File::open(folder)?.sync_all()
    };
    begin().map_err(|source| MarkError::Io { path: path.clone(), source })
}

/// Marks the folder as made from this backup. Everything else in it has to be durable before.
pub fn finish(folder: &Path, backup: &BackupHash) -> Result<(), MarkError> {
    let (draft, path) = (folder.join(DRAFT), folder.join(FILE));
    let finish = || {
        let mut file = File::create(&draft)?;
        file.write_all(hexadecimal(backup).as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, &path)?;
        File::open(folder)?.sync_all()
    };
    finish().map_err(|source| MarkError::Io { path: path.clone(), source })
}

/// The backup the folder was made from; none if it was not.
pub fn read(folder: &Path) -> Result<Option<BackupHash>, MarkError> {
    if folder.join(DRAFT).exists() {
        return Err(MarkError::Unfinished { folder: folder.to_owned() });
    }
    let path = folder.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => parse(text.trim()).map(Some).ok_or(MarkError::Damaged { path }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(MarkError::Io { path, source }),
    }
}

fn hexadecimal(hash: &BackupHash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse(text: &str) -> Option<BackupHash> {
    let mut hash = BackupHash::default();
    if text.len() != 2 * hash.len() || !text.is_ascii() {
        return None;
    }
    for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_tells_its_backup_and_an_unfinished_one_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(read(folder.path()).expect("readable"), None);
        begin(folder.path()).expect("written");
        assert!(matches!(read(folder.path()), Err(MarkError::Unfinished { .. })));
        let hash: BackupHash = std::array::from_fn(|place| place as u8 * 7);
        finish(folder.path(), &hash).expect("written");
        assert_eq!(read(folder.path()).expect("readable"), Some(hash));
        fs::write(folder.path().join(FILE), "no hash").expect("written");
        assert!(matches!(read(folder.path()), Err(MarkError::Damaged { .. })));
    }
}
