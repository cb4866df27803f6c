//! The files of a folder, read.
//!
//! Not here: what is in them (`manifest`).

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use setpoint_types::Object;

use crate::manifest::{Format, parse};

/// Files of one folder, and bytes of one file. What is larger is not written by people.
const FILES_MAX: usize = 1000;
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Folders within folders.
const DEPTH_MAX: usize = 8;

/// Every file with manifests by its path below the folder, and its objects or what is wrong with it.
pub type Files = BTreeMap<String, Result<Vec<Object>, String>>;

/// The folder as a whole cannot be read: what is in it is not known, which is not the same as empty.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("{} could not be read", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} has more than {FILES_MAX} files, or folders deeper than {DEPTH_MAX}", path.display())]
    TooLarge { path: PathBuf },
}

/// Reads a folder and those below it. Hidden ones are left out; so are folders that are links, which could lead back here.
pub fn read(folder: &Path) -> Result<Files, FolderError> {
    let mut files = Files::new();
    read_into(folder, "", 0, &mut files)?;
    Ok(files)
}

fn read_into(folder: &Path, below: &str, depth: usize, files: &mut Files) -> Result<(), FolderError> {
    let failed = |source| FolderError::Read { path: folder.to_owned(), source };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') {
            continue;
        }
        let (path, place) = (entry.path(), format!("{below}{name}"));
        if depth > DEPTH_MAX || files.len() >= FILES_MAX {
            return Err(FolderError::TooLarge { path: folder.to_owned() });
        }
        if entry.file_type().map_err(failed)?.is_dir() {
            read_into(&path, &format!("{place}/"), depth + 1, files)?;
        } else if let Some(format) = Format::of(&name) {
            files.insert(place, read_file(&path, format));
        }
    }
    Ok(())
}

fn read_file(path: &Path, format: Format) -> Result<Vec<Object>, String> {
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    read.map_err(|error| error.to_string())?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("it has more than {FILE_BYTES_MAX} bytes"));
    }
    parse(format, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_read_by_itself() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        fs::create_dir(folder.path().join("team")).unwrap();
        write("team/a.yaml", "kind: Namespace\nmetadata: {name: a}\n");
        write("broken.json", "{");
        write("notes.txt", "kind: Namespace");
        write(".hidden.yaml", "{");
        write("large.yaml", &"# x\n".repeat(300_000));
        let files = read(folder.path()).unwrap();
        let told: Vec<(&str, bool)> = files.iter().map(|(name, it)| (name.as_str(), it.is_ok())).collect();
        assert_eq!(told, [("broken.json", false), ("large.yaml", false), ("team/a.yaml", true)]);
    }

    #[test]
    fn a_folder_that_is_not_there_is_not_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(folder.path()).unwrap().is_empty());
        assert!(read(&folder.path().join("gone")).is_err());
    }
}
