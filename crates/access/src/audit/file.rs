//! The file of the audit log: appended to, and moved aside when it is large enough.
//!
//! `audit.log` is written; `audit.log.1` is the one before it, and so on, up to a number. A line is in one file, whole.
//! What an earlier process left half written is ended first, so that the next line does not continue it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the log is kept and how much of it.
#[derive(Clone, Debug)]
pub struct AuditOptions {
    pub path: PathBuf,
    /// A file that would grow beyond this is moved aside.
    pub file_bytes_max: u64,
    /// Files kept besides the one that is written.
    pub files_kept: u32,
    /// Entries that may wait for the disk.
    pub waiting_max: usize,
    /// How long a write may wait for a place among them before it goes unrecorded.
    pub patience: Duration,
}

impl AuditOptions {
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            file_bytes_max: 100 << 20,
            files_kept: 9,
            // At most about 8 MiB of entries of the usual size.
            waiting_max: 16 << 10,
            // Less than a client notices, more than a disk needs that works.
            patience: Duration::from_millis(100),
        }
    }
}

/// The file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("the audit log {path} cannot be written")]
pub struct AuditFailure {
    pub path: PathBuf,
    #[source]
    pub source: io::Error,
}

/// The open file.
pub struct AuditFile {
    options: AuditOptions,
    file: File,
    bytes: u64,
}

impl AuditFile {
    pub fn open(options: &AuditOptions) -> Result<Self, AuditFailure> {
        let failed = |source| AuditFailure { path: options.path.clone(), source };
        let (file, bytes) = append(&options.path).map_err(failed)?;
        Ok(Self { options: options.clone(), file, bytes })
    }

    /// Appends whole lines, each with its end. On failure some of them may be in the file, the last one in part.
    pub fn append(&mut self, lines: &[u8]) -> Result<(), AuditFailure> {
        let path = self.options.path.clone();
        self.append_lines(lines).map_err(|source| AuditFailure { path, source })
    }

    fn append_lines(&mut self, lines: &[u8]) -> io::Result<()> {
        let max = self.options.file_bytes_max;
        let (mut from, mut to) = (0, 0);
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let full = self.bytes + (to - from + line.len()) as u64 > max;
            if full && self.bytes + (to - from) as u64 > 0 {
                self.write(&lines[from..to])?;
                self.rotate()?;
                from = to;
            }
            to += line.len();
        }
        self.write(&lines[from..to])
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.file.write_all(lines)?;
        self.bytes += lines.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file.sync_all()?;
        rotate(&self.options)?;
        (self.file, self.bytes) = append(&self.options.path)?;
        Ok(())
    }

    /// Makes everything durable.
    pub fn sync(&self) -> Result<(), AuditFailure> {
        self.file.sync_all().map_err(|source| AuditFailure { path: self.options.path.clone(), source })
    }
}

/// Opens a file at its end, and ends a line that has none.
fn append(path: &Path) -> io::Result<(File, u64)> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    let mut bytes = file.metadata()?.len();
    if bytes > 0 {
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
            bytes += 1;
        }
    }
    Ok((file, bytes))
}

/// Each file takes the next number; the last one goes.
fn rotate(options: &AuditOptions) -> io::Result<()> {
    for number in (1..=options.files_kept).rev() {
        let from = numbered(&options.path, number - 1);
        match fs::rename(&from, numbered(&options.path, number)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    if options.files_kept == 0 {
        fs::remove_file(&options.path)?;
    }
    Ok(())
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    if number == 0 {
        return path.to_owned();
    }
    let mut name = path.to_owned().into_os_string();
    name.push(format!(".{number}"));
    name.into()
}
