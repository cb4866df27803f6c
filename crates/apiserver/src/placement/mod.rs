//! Placement: which replica has which node. A scheduler chooses from what it has seen; the commit proves it.
//!
//! A bind writes the replica's status, its Binding, the Decision and all reservations at one revision. What it read is held fast by
//! guards on revisions; the leases of node and caller by fences; room and evenness are found out by the reservations
//! themselves, so that binds of one batch are in each other's way only where there is too little for both.
//!
//! | file | what |
//! |---|---|
//! | [`service`] | the gRPC service |
//! | [`bind`] | groups of binds: decided, committed, and decided anew where a race was lost |
//! | [`group`] | one group as one commit |
//! | [`decide`] | whether a replica can have a node: pure |
//! | [`release`] | taking nodes back, once nothing runs there any more |
//! | [`local`], [`seen`], [`nodes`] | the local copy, as far as it is looked at |
//! | [`write`], [`decision`] | what is stored |
//! | [`books`] | which ledgers there are; the Node's and Quota's follow the objects (`objects::write`) |
//! | [`rejection`] | why a bind cannot be |
//!
//! Policies of admission are not asked: who is placed where is decided by access rules, quotas and placement policies.

mod bind;
pub mod books;
mod decide;
mod decision;
mod group;
mod local;
mod nodes;
mod rejection;
mod release;
mod seen;
mod service;
mod write;

use std::sync::Arc;
use std::time::Duration;

use crate::objects::write::Writer;
use nodes::Nodes;

pub use group::{LEASES, node_lease};
pub use service::PlacementService;
pub use write::{FINALIZER, MANAGER};

#[derive(Clone, Debug)]
pub struct PlacementLimits {
    /// Groups of one request, and bindings of a request to release them.
    pub groups: usize,
    /// Binds of one request.
    pub binds: usize,
    /// Binds of one group: they are one commit.
    pub gang: usize,
    /// Places that one rule of spreading counts.
    pub domains: usize,
    /// Rules of spreading, policies and kinds that one bind may name.
    pub named: usize,
    /// How often a group that lost a race is decided anew.
    pub attempts: usize,
    /// How long after its time to stop by itself a replica may still run: for clocks that differ, and for pauses.
    pub release_margin: Duration,
}

impl Default for PlacementLimits {
    fn default() -> Self {
        Self {
            groups: 1_000,
            binds: 4_000,
            gang: 256,
            domains: 1_024,
            named: 16,
            attempts: 8,
            release_margin: Duration::from_secs(10),
        }
    }
}

/// What binds and releases are done with.
#[derive(Clone)]
pub struct Placer {
    writer: Writer,
    limits: PlacementLimits,
    nodes: Arc<Nodes>,
}

impl Placer {
    pub fn new(writer: Writer, limits: PlacementLimits) -> Self {
        Self { writer, limits, nodes: Arc::default() }
    }
}
