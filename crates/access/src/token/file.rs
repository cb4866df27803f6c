//! A file of tokens: one record per line, as JSON; empty lines and lines that begin with `#` are left alone.
//!
//! A change writes a new file beside it and renames it, so that a server that reads it sees the old one or the new one.
//! Two changes at the same moment may lose one of them: it is a file for an administrator, not a database.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::record::TokenRecord;
use super::secret::TokenId;
use super::table::{TableProblem, TokenTable};

#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    #[error("the token file {path} cannot be read")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the token file {path} cannot be written")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path}:{line}: not a token's record")]
    Line {
        path: PathBuf,
        line: usize,
        #[source]
        source: serde_json::Error,
    },
    #[error("the token file {path} cannot be used")]
    Table {
        path: PathBuf,
        #[source]
        source: TableProblem,
    },
    #[error("the token file {path} has no token {id}")]
    NoSuchToken { path: PathBuf, id: TokenId },
}

/// The file at a path, which need not exist yet.
#[derive(Clone, Debug)]
pub struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Its tokens, ready to be looked up. A file that is not there is an error: a server that was told of one needs it.
    pub fn table(&self) -> Result<TokenTable, TokenFileError> {
        TokenTable::new(&self.records()?)
            .map_err(|source| TokenFileError::Table { path: self.path.clone(), source })
    }

    /// Its records, in their order.
    pub fn records(&self) -> Result<Vec<TokenRecord>, TokenFileError> {
        let text = fs::read_to_string(&self.path).map_err(|source| self.unreadable(source))?;
        let lines = text.lines().enumerate();
        lines.filter_map(|(index, line)| self.record(index, line).transpose()).collect()
    }

    /// Adds a record; makes the file, readable by its owner only, if there is none.
    pub fn add(&self, record: &TokenRecord) -> Result<(), TokenFileError> {
        let mut text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(self.unreadable(source)),
        };
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let line = serde_json::to_string(record).map_err(|error| self.unwritable(error.into()))?;
        text.push_str(&line);
        text.push('\n');
        self.replace(&text)
    }

    /// Removes a record, and leaves everything else as it is written.
    pub fn remove(&self, id: TokenId) -> Result<TokenRecord, TokenFileError> {
        let text = fs::read_to_string(&self.path).map_err(|source| self.unreadable(source))?;
        let (mut kept, mut removed) = (String::with_capacity(text.len()), None);
        for (index, line) in text.lines().enumerate() {
            match self.record(index, line)? {
                Some(record) if record.id == id => removed = Some(record),
                _ => {
                    kept.push_str(line);
                    kept.push('\n');
                }
            }
        }
        let removed = removed.ok_or_else(|| TokenFileError::NoSuchToken { path: self.path.clone(), id })?;
        self.replace(&kept)?;
        Ok(removed)
    }

    fn record(&self, index: usize, line: &str) -> Result<Option<TokenRecord>, TokenFileError> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let failed = |source| TokenFileError::Line { path: self.path.clone(), line: index + 1, source };
        serde_json::from_str(line).map(Some).map_err(failed)
    }

    fn replace(&self, text: &str) -> Result<(), TokenFileError> {
        let mut draft = self.path.clone().into_os_string();
        draft.push(format!(".{}", std::process::id()));
        let write = || {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&draft, &self.path)
        };
        write().map_err(|source| {
            // Nothing half written stays behind.
            let _ = fs::remove_file(&draft);
            self.unwritable(source)
        })
    }

    fn unreadable(&self, source: io::Error) -> TokenFileError {
        TokenFileError::Read { path: self.path.clone(), source }
    }

    fn unwritable(&self, source: io::Error) -> TokenFileError {
        TokenFileError::Write { path: self.path.clone(), source }
    }
}
