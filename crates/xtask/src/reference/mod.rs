//! `docs/reference`: pages about every kind and every method, made from what the server itself goes by: the stored schemas
//! (`crates/types/tests/schemas`) and the contract (`proto/setpoint/v1`).
//!
//! The pages are in the repository, so that they can be read without building anything; a test refuses pages that are not what their
//! sources say. Not here: what a page looks like (`kinds`, `methods`).

mod kinds;
mod methods;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Why the pages could not be made or written.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    #[error("could not read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is no JSON Schema")]
    Schema {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("could not write {path}")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// A page: where it belongs below the repository, and what it says.
pub struct Page {
    pub path: &'static str,
    pub text: String,
}

/// All pages, as the sources below `root` have them.
pub fn pages(root: &Path) -> Result<Vec<Page>, ReferenceError> {
    let schemas = files(&root.join("crates/types/tests/schemas"), "json")?
        .into_iter()
        .map(|(path, text)| match serde_json::from_str(&text) {
            Ok(schema) => Ok((stem(&path), schema)),
            Err(source) => Err(ReferenceError::Schema { path, source }),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let contract: Vec<_> = files(&root.join("proto/setpoint/v1"), "proto")?
        .into_iter()
        .map(|(path, text)| (stem(&path), text))
        .collect();
    Ok(vec![
        Page { path: "docs/reference/kinds.md", text: kinds::page(&schemas) },
        Page { path: "docs/reference/api.md", text: methods::page(&contract) },
    ])
}

/// Writes all pages.
pub fn write(root: &Path) -> Result<(), ReferenceError> {
    for page in pages(root)? {
        let path = root.join(page.path);
        fs::write(&path, page.text).map_err(|source| ReferenceError::Write { path, source })?;
    }
    Ok(())
}

/// The files of a folder with this ending and their texts, by name.
fn files(folder: &Path, ending: &str) -> Result<Vec<(PathBuf, String)>, ReferenceError> {
    let read = |source| ReferenceError::Read { path: folder.to_path_buf(), source };
    let mut paths = fs::read_dir(folder)
        .map_err(read)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(read)?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == ending));
    paths.sort();
    paths
        .into_iter()
        .map(|path| match fs::read_to_string(&path) {
            Ok(text) => Ok((path, text)),
            Err(source) => Err(ReferenceError::Read { path, source }),
        })
        .collect()
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_are_what_their_sources_say() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for page in pages(&root).expect("sources") {
            let stored = fs::read_to_string(root.join(page.path)).unwrap_or_default();
            assert!(stored == page.text, "{} is old: run `cargo xtask reference`", page.path);
        }
    }
}
