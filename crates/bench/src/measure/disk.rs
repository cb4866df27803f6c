//! Disk space of a data folder, and the file system it is on.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Space the folder's files occupy, preallocated blocks included, holes not.
pub fn allocated_bytes(folder: &Path) -> io::Result<u64> {
    let mut total = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // A running store deletes files while we look: one that is gone occupies nothing.
        let metadata = match entry.metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        // `blocks` counts units of 512 bytes whatever the file system's block size.
        total += metadata.blocks() * 512;
        if metadata.is_dir() {
            total += allocated_bytes(&entry.path())?;
        }
    }
    Ok(total)
}

/// The kind of a file system, such as `ext4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem(String);

impl FileSystem {
    /// The file system a path is on.
    pub fn of(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
        Self::among(&mounts, &path)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no mount holds the path"))
    }

    /// Whether a sync to it costs nothing, which would hide what a store spends on durability.
    pub fn is_memory(&self) -> bool {
        matches!(self.0.as_str(), "tmpfs" | "ramfs")
    }

    pub fn name(&self) -> &str {
        &self.0
    }

    fn among(mountinfo: &str, path: &Path) -> Option<Self> {
        let mut best: Option<(usize, &str)> = None;
        for line in mountinfo.lines() {
            // `ID PARENT DEVICE ROOT MOUNTPOINT OPTIONS... - KIND SOURCE OPTIONS`
            let (mount, file_system) = line.split_once(" - ")?;
            let point = PathBuf::from(mount.split(' ').nth(4)?.replace("\\040", " "));
            let kind = file_system.split(' ').next()?;
            let depth = point.components().count();
            // Of two mounts on one point the later one hides the earlier.
            if path.starts_with(&point) && best.is_none_or(|(known, _)| depth >= known) {
                best = Some((depth, kind));
            }
        }
        best.map(|(_, kind)| Self(kind.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 27 0:21 / /proc rw,relatime - proc proc rw\n\
                          27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                          31 27 0:25 / /tmp rw - tmpfs tmpfs rw\n\
                          32 31 254:1 / /tmp/a\\040disk rw - xfs /dev/vdb rw\n";

    fn check(path: &str, expected: &str) {
        let found = FileSystem::among(MOUNTS, Path::new(path)).expect("the root holds every path");
        assert_eq!(found.name(), expected, "{path}");
    }

    #[test]
    fn the_deepest_mount_decides() {
        check("/home/x", "ext4");
        check("/tmp/x", "tmpfs");
        check("/tmp/a disk/x", "xfs");
        check("/tmporary", "ext4");
    }

    #[test]
    fn memory_file_systems_are_recognised() {
        assert!(FileSystem("tmpfs".into()).is_memory());
        assert!(!FileSystem("ext4".into()).is_memory());
    }

    #[test]
    fn nested_files_are_counted() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let empty = allocated_bytes(folder.path()).expect("readable");
        std::fs::create_dir(folder.path().join("wal")).expect("writable");
        std::fs::write(folder.path().join("wal/0"), vec![7; 64 * 1024]).expect("writable");
        let filled = allocated_bytes(folder.path()).expect("readable");
        assert!(filled >= empty + 64 * 1024, "{filled}");
    }
}
