//! What all reads of objects share: the local copy, the kinds, the index, the limits.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use setpoint_api::setpoint::v1::Reason;
use setpoint_store::{EngineFailure, ReadFailure, Rejection, Store};
use tokio::runtime::RuntimeFlavor;
use tokio::task::JoinHandle;

use super::catalog::Catalog;
use super::definitions::Definitions;
use super::error::Refusal;
use super::freshness::Barrier;
use super::index::Index;
use crate::load::Load;
use crate::replica::Halt;
use crate::watch::Hub;

#[derive(Clone)]
pub struct Reader {
    pub store: Arc<Store>,
    pub hub: Arc<Hub>,
    pub barrier: Arc<dyn Barrier>,
    pub catalog: Arc<Catalog>,
    /// What users' kinds in the catalog come from.
    pub definitions: Arc<Definitions>,
    pub index: Arc<Index>,
    pub limits: ReadLimits,
    pub load: Load,
    /// Watches that a compaction overtook.
    pub watches_overtaken: Counter,
    /// Stops the node when its storage fails.
    pub halt: Halt,
}

/// How often a read of the newest state may be overtaken by writes and a compaction before it gives up.
pub const OVERTAKEN_MAX: usize = 4;

#[derive(Clone, Debug)]
pub struct ReadLimits {
    /// Objects on one page of a list.
    pub page_objects: usize,
    /// Bytes of one page, to which its last object may add. With it, a page stays below the 4 MiB that gRPC clients take
    /// unless told otherwise.
    pub page_bytes: usize,
    /// Objects one request looks at that selectors then leave out, where the index cannot help.
    pub scanned_objects: usize,
    /// Versions in one answer about the past of an object.
    pub versions: usize,
    /// How long a read waits for this node to catch up.
    pub wait: Duration,
    /// An answer of a watch takes no further revision beyond this.
    pub response_bytes: usize,
    /// Between two bookmarks of a quiet watch that asked for no interval.
    pub bookmark_interval: Duration,
    /// How long a watch lasts that asked for no time; up to as much again is added, so that not all end together.
    pub watch_timeout: Duration,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self {
            page_objects: 10_000,
            page_bytes: 2 << 20,
            scanned_objects: 20_000,
            versions: 1_000,
            wait: Duration::from_secs(3),
            response_bytes: 1 << 20,
            bookmark_interval: Duration::from_secs(60),
            watch_timeout: Duration::from_secs(30 * 60),
        }
    }
}

impl Reader {
    /// A read that failed for the client's reasons, or because this node's storage did.
    pub fn read_failure(&self, failure: ReadFailure) -> Refusal {
        match failure {
            ReadFailure::Rejected(Rejection::Compacted { oldest }) => Refusal::expired(oldest),
            ReadFailure::Rejected(Rejection::Corrupt) => {
                Refusal::new(Reason::Unavailable, "the members' data differ; the cluster refuses to serve it")
            }
            ReadFailure::Rejected(other) => Refusal::new(Reason::Internal, other.to_string()),
            ReadFailure::Overtaken => Refusal::expired(self.oldest_kept()),
            ReadFailure::Engine(failure) => self.storage_failure(&failure),
        }
    }

    /// Storage that cannot be read stops the node; the client may try another one.
    pub fn storage_failure(&self, failure: &EngineFailure) -> Refusal {
        self.halt.because(failure);
        Refusal::new(Reason::Unavailable, "this node cannot read its storage; try another one")
    }
}

/// Does what may take long while another thread takes over from this async worker. In a runtime of a single thread, as in
/// tests, there is nobody to take over.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    match tokio::runtime::Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Begins a read that may take long, outside the async workers. A runtime of a single thread, as in tests and simulations, does
/// it when its turn comes: with a thread of its own, chance would decide what happens before it.
pub fn begin<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    match tokio::runtime::Handle::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => tokio::spawn(async { read() }),
        _ => tokio::task::spawn_blocking(read),
    }
}

/// Begins it and waits for it.
pub async fn blocking<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    let stopping = |_| Refusal::new(Reason::Unavailable, "this node is stopping; try another one");
    begin(read).await.map_err(stopping)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn others_go_on_while_something_takes_long() {
        let (done, waits) = mpsc::channel();
        let long = tokio::spawn(async move { aside(|| waits.recv_timeout(Duration::from_secs(60))) });
        tokio::spawn(async move { done.send(()) });
        let answer = long.await.expect("no panic");
        assert_eq!(answer, Ok(()), "the only worker was held up");
    }
}
