//! Recorded answers of a real etcd, for machines that cannot run one.
//!
//! A corpus file holds records in the order in which they were made, starting from an empty server; a replay starts from
//! an empty server too. The files are JSON, compressed: `zcat file | less` shows one record per line after the head.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use crate::error::HarnessError;
use crate::run::Record;

/// Raised whenever the form of steps or of normalised answers changes; old files must then be recorded again.
pub const FORMAT: u32 = 1;

const EXTENSION: &str = ".json.gz";

/// The first line of a corpus file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub format: u32,
    pub etcd: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Corpus {
    pub head: Head,
    pub records: Vec<Record>,
}

/// Where the corpus files are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// All corpus files, by name.
pub fn files() -> Result<Vec<PathBuf>, HarnessError> {
    let folder = folder();
    let failed = |source| HarnessError::File { path: folder.clone(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.to_string_lossy().ends_with(EXTENSION) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The path of the corpus file of that name.
pub fn path(name: &str) -> PathBuf {
    folder().join(format!("{name}{EXTENSION}"))
}

impl Corpus {
    pub fn read(path: &Path) -> Result<Self, HarnessError> {
        let failed = |source| HarnessError::File { path: path.to_owned(), source };
        let bad = |source| HarnessError::Content { path: path.to_owned(), source };
        let reader = BufReader::new(GzDecoder::new(File::open(path).map_err(failed)?));
        let mut lines = reader.lines();
        let first = lines.next().transpose().map_err(failed)?.unwrap_or_default();
        let head = serde_json::from_str(&first).map_err(bad)?;
        let mut records = Vec::new();
        for line in lines {
            records.push(serde_json::from_str(&line.map_err(failed)?).map_err(bad)?);
        }
        Ok(Self { head, records })
    }

    pub fn write(&self, path: &Path) -> Result<(), HarnessError> {
        let failed = |source| HarnessError::File { path: path.to_owned(), source };
        let bad = |source| HarnessError::Content { path: path.to_owned(), source };
        let mut out = GzEncoder::new(File::create(path).map_err(failed)?, Compression::best());
        let mut line = |text: String| writeln!(out, "{text}").map_err(failed);
        line(serde_json::to_string(&self.head).map_err(bad)?)?;
        for record in &self.records {
            line(serde_json::to_string(record).map_err(bad)?)?;
        }
        out.finish().map_err(failed)?;
        Ok(())
    }
}
