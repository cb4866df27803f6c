//! What the rules look at: the repository's files and Cargo's view of the workspace. The only file here that does IO.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::string::FromUtf8Error;

use serde::Deserialize;

use super::source::SourceFile;

/// Why the repository could not be read. Broken rules are not errors.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    #[error("could not start `{command}`")]
    Start {
        command: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("`{command}` failed: {message}")]
    Failed { command: &'static str, message: String },
    #[error("`{command}` printed something else than UTF-8")]
    NotUtf8 {
        command: &'static str,
        #[source]
        source: FromUtf8Error,
    },
    #[error("could not understand what `cargo metadata` printed")]
    Metadata(#[source] serde_json::Error),
    #[error("could not read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// The part of `cargo metadata` that the laws of the layers speak of.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    pub workspace_root: PathBuf,
    pub packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
pub struct Package {
    pub name: String,
    pub manifest_path: PathBuf,
    pub dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
pub struct Dependency {
    /// The name of the package, whatever the crate is renamed to.
    pub name: String,
    /// `None` for a normal dependency, else `dev` or `build`.
    pub kind: Option<String>,
}

/// The workspace's own packages with the dependencies their manifests name.
pub fn metadata() -> Result<Metadata, RepositoryError> {
    let printed = output(
        "cargo metadata",
        Command::new("cargo").args(["metadata", "--format-version=1", "--no-deps"]),
    )?;
    serde_json::from_str(&printed).map_err(RepositoryError::Metadata)
}

/// Every text file that is in Git or would be added to it.
pub fn files(root: &Path) -> Result<Vec<SourceFile>, RepositoryError> {
    let listed = output(
        "git ls-files",
        Command::new("git").current_dir(root).args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]),
    )?;
    let mut files = Vec::new();
    for path in listed.split('\0').filter(|path| !path.is_empty()) {
        match std::fs::read(root.join(path)) {
            // Pictures and the like have no text to check.
            Ok(bytes) => files.extend(String::from_utf8(bytes).ok().map(|text| SourceFile::new(path, text))),
            // Deleted but not yet committed, or a link to a folder.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory) => {}
            Err(source) => return Err(RepositoryError::Read { path: path.into(), source }),
        }
    }
    Ok(files)
}

fn output(name: &'static str, command: &mut Command) -> Result<String, RepositoryError> {
    let output = command.output().map_err(|source| RepositoryError::Start { command: name, source })?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(RepositoryError::Failed { command: name, message });
    }
    String::from_utf8(output.stdout).map_err(|source| RepositoryError::NotUtf8 { command: name, source })
}
