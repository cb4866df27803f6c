//! The files under the log: a small seam, so that tests and simulation can lose power, run out of space or
//! fail a sync.
//!
//! `DirFs` is the real one. Not here: the faulty one (`memory`), and what the files contain (`segment`,
//! `record`).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::segment::sequence_of;

/// One directory of files, named without their path.
pub trait LogFs: Send + Sync + 'static {
    fn list(&self) -> io::Result<Vec<String>>;
    fn open(&self, name: &str) -> io::Result<Arc<dyn LogFile>>;
    /// Makes an empty file, replacing one of that name.
    fn create(&self, name: &str) -> io::Result<Arc<dyn LogFile>>;
    /// Open files stay readable and writable under their new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Open files stay readable.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes what was created, renamed and removed so far durable, in that order.
    fn sync_names(&self) -> io::Result<()>;
}

pub trait LogFile: Send + Sync + 'static {
    fn length(&self) -> io::Result<u64>;
    /// Fills the whole buffer, or fails.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all bytes, or fails.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes what was written so far durable.
    fn sync(&self) -> io::Result<()>;
    /// Whether a read may wait for a device, and so must not run on an async worker.
    fn reads_block(&self) -> bool;
}

/// A directory, locked against a second process for as long as this value lives.
pub struct DirFs {
    path: PathBuf,
    directory: File,
    _lock: File,
}

const LOCK: &str = "LOCK";

impl DirFs {
    /// Creates the directory if it is missing. Fails with `WouldBlock` when another process has it open.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        std::fs::create_dir_all(&path)?;
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            File::open(parent)?.sync_all()?;
        }
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(path.join(LOCK))?;
        lock.try_lock()?;
        let directory = File::open(&path)?;
        Ok(Self { path, directory, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Whether a log was ever begun in the directory. It need not exist.
pub fn begun(path: &Path) -> io::Result<bool> {
    match std::fs::read_dir(path) {
        Ok(mut entries) => entries.try_fold(false, |begun, entry| {
            let name = entry?.file_name();
            Ok(begun || name.to_str().and_then(sequence_of).is_some())
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

impl LogFs for DirFs {
    fn list(&self) -> io::Result<Vec<String>> {
        let names = std::fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(Result::transpose).collect()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        Ok(Arc::new(OpenOptions::new().read(true).write(true).open(self.path.join(name))?))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        Ok(Arc::new(options.open(self.path.join(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        self.directory.sync_all()
    }
}

impl LogFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn reads_block(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_owner() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let first = DirFs::open(directory.path()).expect("nobody else has it");
        assert_eq!(
            DirFs::open(directory.path()).err().map(|error| error.kind()),
            Some(io::ErrorKind::WouldBlock)
        );
        drop(first);
        DirFs::open(directory.path()).expect("the lock ended with its owner");
    }
}
