//! Small files that survive a crash whole: either the old content is there, or the new one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Replaces a file. When this returns, the new content survives a power loss.
pub fn replace(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let aside = path.with_extension("new");
    let mut file = File::create(&aside)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&aside, path)?;
    sync_parent(path)
}

/// Creates a file that is not there yet. False: somebody was first.
pub fn create_new(path: &Path, value: &impl Serialize) -> io::Result<bool> {
    // Linked under its name only when it is whole: nobody sees half of it.
    let aside = path.with_extension(format!("new-{}", std::process::id()));
    let mut file = File::create(&aside)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    file.sync_all()?;
    drop(file);
    let linked = fs::hard_link(&aside, path);
    fs::remove_file(&aside)?;
    match linked {
        Ok(()) => sync_parent(path).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// What a file holds; none if there is no such file.
pub fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(content) => Ok(Some(serde_json::from_slice(&content)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes the names in the folder of a file durable.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => File::open(parent)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_creates_and_a_reader_finds_the_newest() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("claim");
        assert_eq!(read::<u32>(&path).expect("no error"), None);
        assert!(create_new(&path, &1).expect("created"));
        assert!(!create_new(&path, &2).expect("refused"));
        assert_eq!(read::<u32>(&path).expect("read"), Some(1));
        replace(&path, &3).expect("replaced");
        assert_eq!(read::<u32>(&path).expect("read"), Some(3));
        let names = fs::read_dir(folder.path()).expect("a listing").count();
        assert_eq!(names, 1, "nothing is left aside");
    }
}
