//! Who works on what: leader election and sharding, which are one mechanism.
//!
//! A controller's keys are split over `n` leases by a hash of the key; with `n = 1` that is leader election. Every process that
//! runs the controller is a member, by a lease of its own that the others see by a watch. From the members and from who has what
//! follows who should have what. A process with no shard is a warm standby.
//!
//! The seam, as a controller's loop uses it:
//!
//! ```no_run
//! # use setpoint_runtime::cache::Key;
//! # use setpoint_runtime::election::{Election, Settings};
//! # async fn example(client: setpoint_client::Client, informers: setpoint_runtime::informer::Informers, key: Key)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! let options = Settings { shards: 6, ..Settings::default() }.check()?;
//! let election = Election::new(&client, &informers, "config-distributor", "host-a", options)?;
//! let shards = election.shards();
//! let stop = tokio_util::sync::CancellationToken::new();
//! let running = tokio::spawn(election.run(stop.clone()));
//!
//! // A worker, before it runs a key; when `shards.changes()` moves, it looks again at the keys it passed over.
//! if let Some(guard) = shards.begin_run(key.stable_hash()) {
//!     let fenced = client.with_fence(guard.claim().fence.clone());
//!     tokio::select! {
//!         () = guard.claim().lost() => {} // the run is dropped
//!         () = async { /* the run, with `fenced`; if a write is refused as fenced: shards.fenced(guard.claim()) */ } => {}
//!     }
//! }
//! stop.cancel(); // leave, drain, give back
//! running.await?;
//! # Ok(()) }
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`shard`], [`name`] | which shard a key is in; what leases are called |
//! | [`assignment`], [`view`] | who should have what; what the watch shows |
//! | [`machine`], [`group`] | one lease, and all of a process: events in, effects out |
//! | [`driver`], [`keeper`] | do what the group says; the stream of keep-alives |
//! | [`claim`], [`table`], [`shards`] | what workers see of it |
//!
//! Not here: what a run does, and to put keys of a gained shard into the queue (the controller's loop).
//! Why it is so is in [ADR 14](../../../docs/adr/0014-election-and-shards.md).

pub mod assignment;
mod claim;
mod driver;
pub mod group;
mod keeper;
pub mod machine;
pub mod name;
mod settings;
mod shard;
mod shards;
mod stats;
mod table;
pub mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use claim::{Claim, RunGuard};
use driver::{Driver, Parts};
use keeper::{Keeper, Observed};
pub use name::BadName;
use name::Names;
use setpoint_client::Client;
use setpoint_types::Revision;
use setpoint_types::kinds::Lease;
pub use settings::{Options, Settings, SettingsError};
pub use shard::ShardId;
pub use shards::Shards;
pub use stats::ElectionMetrics;
use stats::Stats;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::informer::{Informers, Selection};

/// As the server takes names of holders, less the suffix.
const IDENTITY_BYTES_MAX: usize = 200;

/// One process's part in the election of a controller. Nothing happens before [`Election::run`].
///
/// **Guarantees**
/// - Two processes never have a valid [`Claim`] to one shard at the same time, if their clocks run equally fast.
/// - A claim is valid no longer than the server counts, less the margin, also after a pause of the process.
/// - Processes that were told different numbers of shards never work at the same time, while each is seen as a member: those that
///   came later stand by, say so in the log and in `election_layout_conflict`, and take over when the others are gone.
/// - Two processes with the same identity are two: each adds a random number to it.
/// - Shards are spread evenly, and no more of them move than that needs.
///
/// **Assumes** that the namespace of the leases exists, that the client may take leases and watch `Lease` objects there, and
/// that nobody else writes leases with these names.
///
/// **Does not promise** that every shard has somebody at every moment: after a crash, nobody has the shards for as long as the
/// lease lasts. Nor that a process notices in time that it has lost a shard, see [`Claim`].
pub struct Election {
    parts: Parts,
    shards: Shards,
    observed: Observed,
}

/// No election can be held.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElectionError {
    #[error(transparent)]
    Controller(#[from] BadName),
    #[error(
        "{identity:?} cannot be the name of a process: it must have 1 to 200 bytes, and no control characters"
    )]
    Identity { identity: String },
}

impl Election {
    /// `controller` is the same in all processes, `identity` names this one for people: its host, say.
    pub fn new(
        client: &Client,
        informers: &Informers,
        controller: &str,
        identity: &str,
        options: Options,
    ) -> Result<Self, ElectionError> {
        let names = Names::new(controller)?;
        if !(1..=IDENTITY_BYTES_MAX).contains(&identity.len()) || identity.chars().any(char::is_control) {
            return Err(ElectionError::Identity { identity: identity.to_owned() });
        }
        let count = options.settings().shards;
        let shards = Shards::new(count);
        let parts = Parts {
            client: client.clone(),
            cache: informers.cache::<Lease>(Selection::namespace(&options.settings().namespace)),
            stats: Arc::new(Stats::new(controller, count)),
            table: shards.table().clone(),
            me: format!("{identity}-{:016x}", client.entropy().draw()),
            names,
            options,
        };
        Ok(Self { parts, shards, observed: Arc::new(BTreeMap::new) })
    }

    /// Tells the server with every keep-alive up to where the process has seen each kind.
    #[must_use]
    pub fn observing(
        mut self,
        observed: impl Fn() -> BTreeMap<String, Revision> + Send + Sync + 'static,
    ) -> Self {
        self.observed = Arc::new(observed);
        self
    }

    #[must_use]
    pub fn with_metrics(self, metrics: &ElectionMetrics) -> Self {
        metrics.show(&self.parts.stats);
        self
    }

    /// What this process is called in the leases.
    pub fn holder(&self) -> &str {
        &self.parts.me
    }

    pub fn shards(&self) -> Shards {
        self.shards.clone()
    }

    /// Takes part until `stop`; then leaves, lets runs end, and gives everything back, for as long as
    /// [`Settings::drain_ms`] and a few seconds. Dropped, it loses every claim at once and gives nothing back.
    pub async fn run(self, stop: CancellationToken) {
        let Parts { client, options, me, .. } = &self.parts;
        // A keep-alive per lease can be under way.
        let leases = self.shards.count() as usize + 1;
        let (keep, asked) = mpsc::channel(leases);
        let (told, kept) = mpsc::channel(leases);
        let keeper = Keeper {
            client: client.clone(),
            holder: me.clone(),
            options: options.clone(),
            observed: self.observed,
        };
        let driver = Driver::new(self.parts, keep, kept);
        tokio::select! {
            () = driver.run(stop) => {}
            () = keeper.run(asked, told) => {}
        }
    }
}
