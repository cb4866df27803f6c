//! Leases over objects: who may act now, and proof of it for every write.
//!
//! A lease has three parts, which change together in one commit: the *hold*, a key of the state machine that decides; the
//! *epoch*, which only grows; and the Lease *object*, which tells clients and watchers, and keeps the queue. The etcd lease
//! that the hold is attached to counts the time.
//!
//! | file | what |
//! |---|---|
//! | [`service`] | the gRPC service |
//! | [`acquire`] | taking a lease, or waiting for it |
//! | [`decide`] | what to do about a request to take it: pure |
//! | [`queue`] | who waits, in which order: pure |
//! | [`keep`] | keep-alives |
//! | [`release`], [`expiry`] | the two ways a hold ends here; a third is deleting the object (`objects::write`) |
//! | [`holders`] | who holds what, as the leader knows it |
//! | [`state`] | a lease as it is at one moment |
//! | [`object`] | the Lease object, and what its status becomes |
//! | [`keeper`] | how the leader is asked: the seam for tests |
//! | [`wake`] | being woken when a lease changes |
//!
//! **Isolation.** A keep-alive reads one key of the local copy and goes to the leader's memory with all others of that
//! moment (`lease::renewals`). It is no log entry, waits behind no write, and passes a read barrier only if the local copy
//! does not know the hold. Waiting for a lease costs one write to enter the queue, and one to leave it; nobody polls.

mod acquire;
mod decide;
pub mod expiry;
mod holders;
mod keep;
mod keeper;
mod object;
mod queue;
mod release;
mod service;
mod state;
mod wake;

use std::sync::Arc;
use std::time::Duration;

use setpoint_api::setpoint::v1::Reason;
use setpoint_objects::{Metadata, write};
use setpoint_store::LeaseName;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::objects::Refusal;
use crate::objects::write::Writer;
use crate::objects::write::convert::refused;

pub use keeper::{ClusterKeeper, Keeper};
pub use service::CoordinationService;
pub use state::{LeaseMoment, lease_moment};

/// The kind.
pub const LEASE: &str = "Lease";

/// Of the name of a holder.
const HOLDER_BYTES_MAX: usize = 253;

#[derive(Clone, Debug)]
pub struct CoordinationLimits {
    /// The longest a request waits for a lease; one that asks for more is told before.
    pub wait: Duration,
    /// Requests of this node that wait at a time.
    pub waiters: usize,
    /// Who may wait for one lease.
    pub queue: usize,
    /// How often a request that lost a race is decided anew.
    pub attempts: usize,
    /// Keep-alives of one stream that are under way; further ones wait on the stream.
    pub in_flight: usize,
    /// Kinds a keep-alive may tell about.
    pub observed: usize,
    /// Leases in one answer about holders.
    pub holders: usize,
}

impl Default for CoordinationLimits {
    fn default() -> Self {
        Self {
            wait: Duration::from_secs(60),
            waiters: 4096,
            queue: 64,
            attempts: 16,
            in_flight: 128,
            observed: 32,
            holders: 20_000,
        }
    }
}

/// What all of it works with.
#[derive(Clone)]
pub struct Coordinator {
    writer: Writer,
    keeper: Arc<dyn Keeper>,
    limits: CoordinationLimits,
    waiters: Arc<Semaphore>,
    /// Cancelled when the node begins to stop: nobody waits any longer.
    stopping: CancellationToken,
}

impl Coordinator {
    pub fn new(
        writer: Writer,
        keeper: Arc<dyn Keeper>,
        limits: CoordinationLimits,
        stopping: CancellationToken,
    ) -> Self {
        let waiters = Arc::new(Semaphore::new(limits.waiters));
        Self { writer, keeper, limits, waiters, stopping }
    }
}

/// The lease a request means.
fn lease_name(namespace: &str, lease: &str) -> Result<LeaseName, Refusal> {
    let mut key = Metadata { namespace: namespace.to_owned(), name: lease.to_owned(), ..Metadata::default() };
    write::settle_key(&object::kind().for_rules(), &mut key, "").map_err(refused)?;
    Ok(LeaseName::new(key.namespace, key.name))
}

fn holder_name(holder: String) -> Result<String, Refusal> {
    if holder.is_empty() || holder.len() > HOLDER_BYTES_MAX || holder.chars().any(char::is_control) {
        let text = format!("must have 1 to {HOLDER_BYTES_MAX} bytes, and no control characters");
        return Err(Refusal::invalid("holder", text));
    }
    Ok(holder)
}

fn stopping() -> Refusal {
    Refusal::new(Reason::Unavailable, "this node is stopping; try another one")
}
