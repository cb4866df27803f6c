//! RocksDB as the replica's tables.

use std::path::Path;
use std::sync::Arc;

use setpoint_apiserver::replica::Engines;
use setpoint_store::{Engine, EngineFailure, RocksEngine, RocksOptions};

pub struct RocksEngines(pub RocksOptions);

impl Engines for RocksEngines {
    fn open(&self, folder: &Path) -> Result<Arc<dyn Engine>, EngineFailure> {
        Ok(Arc::new(RocksEngine::open(folder, &self.0)?))
    }

    fn open_read_only(&self, folder: &Path) -> Result<Arc<dyn Engine>, EngineFailure> {
        Ok(Arc::new(RocksEngine::open_read_only(folder, &self.0)?))
    }
}
