//! The state's folder on disk, and its replacement as a whole.
//!
//! ```text
//! state/CURRENT   the number of the generation in use, replaced by rename
//! state/7/        its tables
//! ```
//! A received snapshot becomes the next generation: its files are moved beside the old ones, made durable, and only then
//! does `CURRENT` name them. A crash at any point leaves either the old state or the new one, whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use setpoint_store::{Applied, Engine, EngineFailure, Store};

/// Opens the tables in a folder. A seam, so that tests and simulations need no RocksDB.
pub trait Engines: Send + Sync + 'static {
    fn open(&self, folder: &Path) -> Result<Arc<dyn Engine>, EngineFailure>;

    /// Opens tables that must not be changed.
    fn open_read_only(&self, folder: &Path) -> Result<Arc<dyn Engine>, EngineFailure>;
}

pub struct Generations {
    root: PathBuf,
    current: u64,
    engines: Box<dyn Engines>,
}

#[derive(Debug, thiserror::Error)]
pub enum GenerationError {
    #[error("the state folder {path} cannot be {operation}")]
    Io {
        operation: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} does not name a generation; restore the node from its peers or from a backup")]
    NotANumber { path: PathBuf },
    #[error("the tables in {path} cannot be used")]
    Tables {
        path: PathBuf,
        #[source]
        source: EngineFailure,
    },
}

const POINTER: &str = "CURRENT";

impl Generations {
    /// Opens the current generation under `root`, making the first one if there is none.
    pub fn open(root: &Path, engines: Box<dyn Engines>) -> Result<(Self, Arc<dyn Engine>), GenerationError> {
        fs::create_dir_all(root).map_err(io_error("created", root))?;
        let pointer = root.join(POINTER);
        let current = match fs::read_to_string(&pointer) {
            Ok(text) => text.trim().parse().map_err(|_| GenerationError::NotANumber { path: pointer })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                point(root, 1)?;
                1
            }
            Err(error) => return Err(io_error("read", &pointer)(error)),
        };
        let generations = Self { root: root.to_owned(), current, engines };
        let engine = generations.open_engine(&generations.folder(current))?;
        generations.remove_stale();
        Ok((generations, engine))
    }

    /// Makes the files in `received` the next generation and opens it. The old one stays until `remove_stale`.
    pub fn switch_to(&mut self, received: &Path) -> Result<Arc<dyn Engine>, GenerationError> {
        let next = self.current + 1;
        let folder = self.folder(next);
        if folder.exists() {
            // Left by a crash before the switch.
            fs::remove_dir_all(&folder).map_err(io_error("cleared", &folder))?;
        }
        sync_files(received)?;
        fs::rename(received, &folder).map_err(io_error("moved", received))?;
        sync_folder(&self.root)?;
        setpoint_failpoint::hit("switch.after-move");
        // Opened before it is named: tables that cannot be opened must not become the state.
        let engine = self.open_engine(&folder)?;
        setpoint_failpoint::hit("switch.after-open");
        point(&self.root, next)?;
        setpoint_failpoint::hit("switch.after-pointer");
        self.current = next;
        Ok(engine)
    }

    /// Deletes every generation but the current one. Files that readers still hold go when they let go.
    pub fn remove_stale(&self) {
        let Ok(entries) = fs::read_dir(&self.root) else { return };
        for entry in entries.flatten() {
            let number = entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok());
            if number.is_some_and(|number| number != self.current)
                && let Err(error) = fs::remove_dir_all(entry.path())
            {
                tracing::warn!(path = %entry.path().display(), %error, "an old generation was not removed");
            }
        }
    }

    /// What a folder of tables contains.
    pub fn inspect(&self, folder: &Path) -> Result<Applied, GenerationError> {
        let tables = |source| GenerationError::Tables { path: folder.to_owned(), source };
        let engine = self.engines.open_read_only(folder).map_err(tables)?;
        Store::inspect(&*engine).map_err(tables)
    }

    fn open_engine(&self, folder: &Path) -> Result<Arc<dyn Engine>, GenerationError> {
        self.engines
            .open(folder)
            .map_err(|source| GenerationError::Tables { path: folder.to_owned(), source })
    }

    fn folder(&self, generation: u64) -> PathBuf {
        self.root.join(generation.to_string())
    }
}

/// Names a generation, durably and atomically.
fn point(root: &Path, generation: u64) -> Result<(), GenerationError> {
    let (draft, pointer) = (root.join("CURRENT.new"), root.join(POINTER));
    let write = || {
        let mut file = File::create(&draft)?;
        writeln!(file, "{generation}")?;
        file.sync_all()?;
        fs::rename(&draft, &pointer)
    };
    write().map_err(io_error("pointed", &pointer))?;
    sync_folder(root)
}

fn sync_files(folder: &Path) -> Result<(), GenerationError> {
    let sync = || {
        for entry in fs::read_dir(folder)? {
            File::open(entry?.path())?.sync_all()?;
        }
        File::open(folder)?.sync_all()
    };
    sync().map_err(io_error("synced", folder))
}

fn sync_folder(folder: &Path) -> Result<(), GenerationError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io_error("synced", folder))
}

fn io_error(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> GenerationError {
    let path = path.to_owned();
    move |source| GenerationError::Io { operation, path: path.clone(), source }
}
