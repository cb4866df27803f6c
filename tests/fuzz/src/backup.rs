//! Backups that are put back.

use std::fs;
use std::path::Path;

use setpoint_apiserver::backup;
use sha2::{Digest, Sha256};

/// Whatever a file with a good checksum holds: nothing is written outside of its folder, only plain files are written, and no
/// more than the file had.
pub fn unpack(data: &[u8]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut content = data.to_vec();
    content.resize(content.len().next_multiple_of(512).max(512), 0);
    let sum = Sha256::digest(&content);
    let file = folder.path().join("backup");
    fs::write(&file, [&content[..], &sum].concat()).expect("written");
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).expect("a folder");
    if let Ok(hash) = backup::unpack(&file, &inner.join("out")) {
        assert_eq!(hash[..], sum[..]);
    }
    assert_eq!(names(folder.path()), ["backup", "inner"]);
    assert!(names(&inner).iter().all(|name| name == "out"), "{:?}", names(&inner));
    let mut bytes = 0;
    for name in if inner.join("out").exists() { names(&inner.join("out")) } else { Vec::new() } {
        let metadata = fs::symlink_metadata(inner.join("out").join(&name)).expect("it is there");
        assert!(metadata.is_file(), "{name} is no plain file");
        bytes += metadata.len();
    }
    assert!(bytes <= content.len() as u64, "{bytes} of {}", content.len());
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
