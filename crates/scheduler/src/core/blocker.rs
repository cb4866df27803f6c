//! What keeps a class waiting, as the queue's index has it: whatever could help is found by it.

use std::sync::Arc;

use super::cluster::resource::Dim;
use super::cluster::tally::TallyIx;
use super::cluster::topology::Domain;

/// One thing that has to change before it makes sense to try again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blocker {
    /// A quota of the namespace has too little left.
    Quota { namespace: Arc<str>, dim: Dim },
    /// Nodes of a zone have too little left.
    Room { zone: Domain, dim: Dim },
    /// A port is taken on nodes of a zone.
    Port { zone: Domain },
    /// Nodes do not suit: another one could, or the same ones once they are others.
    Nodes,
    /// Replicas would have to be elsewhere.
    Tally(TallyIx),
    /// Replicas would have to be there for sure.
    Company(TallyIx),
    /// Places would have to be others.
    Places,
    /// Policies would have to be others.
    Policies,
    /// A priority class would have to let its replicas take the place of others.
    PriorityClass(Arc<str>),
    /// Others of the gang have to come.
    Gang,
}
