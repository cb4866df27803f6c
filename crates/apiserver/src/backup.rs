//! Backups: a consistent copy of the state as one stream of bytes.
//!
//! A tar archive of a checkpoint's files, padded to whole blocks, then the SHA-256 of everything before it. That is the
//! framing etcd's tools check, so `etcdctl snapshot save` fetches one; the content is Setpoint's own and is put back
//! with `setpointd restore`.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use bytes::{Bytes, BytesMut};
use setpoint_store::{EngineFailure, Store};
use sha2::{Digest, Sha256};

const CHUNK: usize = 256 << 10;
const BLOCK: u64 = 512;
const HASH: usize = 32;

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("the state could not be copied")]
    Checkpoint(#[source] EngineFailure),
    #[error("the copy in {path} could not be read or removed")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the receiver left, or took nothing for a minute, before the backup was complete")]
    ReceiverLeft,
    #[error("{path} is not a complete backup; take it again")]
    Incomplete { path: PathBuf },
    #[error("{path} is damaged: its content does not match its checksum")]
    Damaged { path: PathBuf },
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> BackupError {
    let path = path.to_owned();
    move |source| BackupError::Io { path: path.clone(), source }
}

/// Makes a copy in a folder below `scratch` and passes it on in chunks, each with the bytes of the copy that come after it;
/// last its hash. Blocks.
pub fn send(
    store: &Store,
    scratch: &Path,
    mut chunk: impl FnMut(u64, Bytes) -> Result<(), BackupError>,
) -> Result<(), BackupError> {
    fs::create_dir_all(scratch).map_err(io_error(scratch))?;
    let folder = tempfile::Builder::new().prefix("backup-").tempdir_in(scratch).map_err(io_error(scratch))?;
    let files = folder.path().join("files");
    store.checkpoint(&files).map_err(BackupError::Checkpoint)?;
    let total = archive_size(&files).map_err(io_error(&files))?;
    let mut sink = Sink {
        chunk: &mut chunk,
        buffer: BytesMut::new(),
        hash: Sha256::new(),
        remaining: total,
        failed: None,
    };
    let written = write_archive(&files, &mut sink).and_then(|()| sink.flush_buffer());
    if let Some(failed) = sink.failed.take() {
        return Err(failed);
    }
    written.map_err(io_error(&files))?;
    let hash = sink.hash.finalize();
    chunk(0, Bytes::copy_from_slice(&hash))
}

fn sorted_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

/// The archive's bytes: a header block and padded content for each file, two blocks at the end. Without the hash after it,
/// which etcd does not count among what remains either.
fn archive_size(folder: &Path) -> io::Result<u64> {
    let mut size = 2 * BLOCK;
    for file in sorted_files(folder)? {
        size += BLOCK + fs::metadata(file)?.len().next_multiple_of(BLOCK);
    }
    Ok(size)
}

fn write_archive(folder: &Path, sink: &mut impl Write) -> io::Result<()> {
    let mut archive = tar::Builder::new(sink);
    archive.mode(tar::HeaderMode::Deterministic);
    for path in sorted_files(folder)? {
        let name = path.file_name().map(PathBuf::from).ok_or(io::ErrorKind::InvalidInput)?;
        archive.append_file(name, &mut File::open(&path)?)?;
    }
    archive.finish()
}

/// Cuts what is written into chunks and hashes it.
struct Sink<'a, F> {
    chunk: &'a mut F,
    buffer: BytesMut,
    hash: Sha256,
    remaining: u64,
    failed: Option<BackupError>,
}

impl<F: FnMut(u64, Bytes) -> Result<(), BackupError>> Sink<'_, F> {
    fn flush_buffer(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let blob = self.buffer.split().freeze();
        self.hash.update(&blob);
        self.remaining = self.remaining.saturating_sub(blob.len() as u64);
        (self.chunk)(self.remaining, blob).map_err(|failed| {
            self.failed = Some(failed);
            io::ErrorKind::BrokenPipe.into()
        })
    }
}

impl<F: FnMut(u64, Bytes) -> Result<(), BackupError>> Write for Sink<'_, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK {
            self.flush_buffer()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Checks a backup file and unpacks it into `folder`, which must not exist. Returns the checksum it ends with.
pub fn unpack(backup: &Path, folder: &Path) -> Result<[u8; HASH], BackupError> {
    let size = fs::metadata(backup).map_err(io_error(backup))?.len();
    if size <= HASH as u64 || !(size - HASH as u64).is_multiple_of(BLOCK) {
        return Err(BackupError::Incomplete { path: backup.to_owned() });
    }
    let hash = verify(backup, size - HASH as u64)?;
    fs::create_dir_all(folder).map_err(io_error(folder))?;
    let content = File::open(backup).map_err(io_error(backup))?.take(size - HASH as u64);
    unpack_files(content, folder).map_err(io_error(folder))?;
    Ok(hash)
}

/// Plain files side by side, which is all that `write_archive` makes. A checksum says that a file is whole, not who made it: links,
/// folders and files with holes would write elsewhere, or without an end.
fn unpack_files(content: impl Read, folder: &Path) -> io::Result<()> {
    let foreign =
        || io::Error::new(io::ErrorKind::InvalidData, "it holds something else than a backup's files");
    for entry in tar::Archive::new(content).entries()?.raw(true) {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let mut parts = path.components();
        let (Some(Component::Normal(name)), None) = (parts.next(), parts.next()) else {
            return Err(foreign());
        };
        if entry.header().entry_type() != tar::EntryType::Regular {
            return Err(foreign());
        }
        let size = entry.size();
        let mut file = File::create_new(folder.join(name))?;
        if io::copy(&mut entry, &mut file)? != size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

fn verify(backup: &Path, content_size: u64) -> Result<[u8; HASH], BackupError> {
    let mut file = File::open(backup).map_err(io_error(backup))?;
    let mut hash = Sha256::new();
    io::copy(&mut (&mut file).take(content_size), &mut hash).map_err(io_error(backup))?;
    let mut expected = [0; HASH];
    file.read_exact(&mut expected).map_err(io_error(backup))?;
    if hash.finalize()[..] == expected {
        Ok(expected)
    } else {
        Err(BackupError::Damaged { path: backup.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use setpoint_store::MemoryEngine;

    use super::*;

    fn backup_file(folder: &Path) -> PathBuf {
        let store = Store::open(Arc::new(MemoryEngine::new())).expect("an empty engine opens");
        let path = folder.join("backup");
        let mut file = File::create(&path).expect("a file in a fresh folder");
        let mut left = None;
        send(&store, &folder.join("scratch"), |remaining, blob| {
            match left {
                None => {}
                Some(0) => assert_eq!(
                    (blob.len(), remaining),
                    (HASH, 0),
                    "the hash comes after all that was counted"
                ),
                Some(left) => {
                    assert_eq!(blob.len() as u64 + remaining, left, "the count of what remains is exact")
                }
            }
            left = Some(remaining);
            file.write_all(&blob).map_err(io_error(&path))
        })
        .expect("sent");
        path
    }

    #[test]
    fn what_was_sent_unpacks_and_has_the_framing_that_etcdctl_checks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = backup_file(folder.path());
        assert_eq!(fs::metadata(&path).expect("written").len() % BLOCK, HASH as u64);
        unpack(&path, &folder.path().join("out")).expect("unpacked");
        MemoryEngine::open_checkpoint(&folder.path().join("out")).expect("the tables are there");
    }

    #[test]
    fn what_is_no_plain_file_is_not_unpacked() {
        let made = |kind: tar::EntryType, name: &str, link: &str| {
            let mut header = tar::Header::new_gnu();
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(kind);
            header.set_link_name(link).expect("a name");
            header.set_size(0);
            header.set_cksum();
            let mut archive = tar::Builder::new(Vec::new());
            archive.append(&header, io::empty()).expect("appended");
            archive.into_inner().expect("an archive")
        };
        use tar::EntryType as Kind;
        for (kind, name, is_good) in [
            (Kind::Regular, "000007.sst", true),
            (Kind::Regular, "../elsewhere", false),
            (Kind::Regular, "/elsewhere", false),
            (Kind::Regular, "below/it", false),
            (Kind::Regular, "", false),
            (Kind::Symlink, "link", false),
            (Kind::Link, "link", false),
            (Kind::Directory, "folder", false),
            (Kind::Fifo, "pipe", false),
            (Kind::GNUSparse, "holes", false),
        ] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let content = made(kind, name, "/");
            let sum = Sha256::digest(&content);
            let path = folder.path().join("backup");
            fs::write(&path, [&content[..], &sum].concat()).expect("written");
            let unpacked = unpack(&path, &folder.path().join("out"));
            assert_eq!(unpacked.is_ok(), is_good, "{kind:?} {name:?}: {unpacked:?}");
            let left = fs::read_dir(folder.path().join("out")).expect("a folder").count();
            assert_eq!(left, usize::from(is_good), "{kind:?} {name:?}");
        }
    }

    #[test]
    fn cut_and_damaged_backups_are_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = backup_file(folder.path());
        let whole = fs::read(&path).expect("read");
        fs::write(&path, &whole[..whole.len() - 1]).expect("written");
        let out = folder.path().join("out");
        assert!(matches!(unpack(&path, &out), Err(BackupError::Incomplete { .. })));
        let mut damaged = whole.clone();
        damaged[700] ^= 1;
        fs::write(&path, damaged).expect("written");
        assert!(matches!(unpack(&path, &out), Err(BackupError::Damaged { .. })));
        assert!(!out.exists());
    }
}
