//! The handle of those who work: which shards are ours, and may a run begin.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use super::claim::{Claim, RunGuard};
use super::shard::{ShardId, shard_of};
use super::table::Table;

/// The shards of a controller, as this process has them. Cheap to clone; clones are the same.
///
/// **Guarantees**
/// - A key belongs to one shard, in every process with the same number of shards.
/// - A run that [`Shards::begin_run`] lets begin has a claim that was valid on the local clock at that moment.
/// - A shard that is to go to another process is given back only when no [`RunGuard`] of it is left, or its runs had their time
///   and their claims were lost; no run begins on it meanwhile.
/// - When the election ends, or is dropped, every claim is lost.
///
/// **Assumes** that a run stops when its claim is lost, and that its writes carry the claim's fence.
///
/// **Does not promise** that some process has each shard: after a crash nobody has its shards for as long as the lease lasts.
#[derive(Clone)]
pub struct Shards {
    count: u32,
    table: Arc<Table>,
}

impl Shards {
    pub(super) fn new(count: u32) -> Self {
        Self { count, table: Arc::new(Table::new(count)) }
    }

    pub(super) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    /// The shard that a key's hash ([`crate::cache::Key::stable_hash`]) falls into.
    pub fn shard_of(&self, key_hash: u64) -> ShardId {
        shard_of(key_hash, self.count)
    }

    /// The claim to the shard of a key, if this process has it and runs may begin on it.
    pub fn claim(&self, key_hash: u64) -> Option<Claim> {
        self.table.claim(self.shard_of(key_hash), Instant::now())
    }

    /// Begins a run of a key: the shard is not given back while it lasts, within limits.
    pub fn begin_run(&self, key_hash: u64) -> Option<RunGuard> {
        let claim = self.table.begin_run(self.shard_of(key_hash), Instant::now())?;
        Some(RunGuard::counted(claim, self.table.clone()))
    }

    /// Every shard on which runs may begin.
    pub fn held(&self) -> Vec<Claim> {
        self.table.held(Instant::now())
    }

    /// A number that grows whenever a shard is gained, lost, or closed to new runs.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.table.changes()
    }

    /// Says that a write under this claim was refused as fenced: the claim is lost at once, and the lease asked for anew.
    pub fn fenced(&self, claim: &Claim) {
        self.table.fenced(claim);
    }
}

impl fmt::Debug for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shards({:?} of {})", self.held(), self.count)
    }
}
