//! What changed in the cluster that could help somebody who waits.

use std::sync::Arc;

use super::node::NodeIx;
use super::resource::Dim;
use super::tally::TallyIx;

/// One change, without what it was before: those who wait look for themselves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A node has more of something.
    Room { node: NodeIx, dim: Dim },
    /// A node has a port less in use.
    Port { node: NodeIx },
    /// A node came, or is another than it was.
    Node { node: NodeIx },
    /// Places came, went, or are made of other nodes.
    Places,
    /// Replicas that others count are elsewhere.
    Tally(TallyIx),
    /// Replicas that others count are there for sure, and not only assumed to be.
    Company(TallyIx),
    /// A namespace may have more of something, or uses less of it.
    Quota { namespace: Arc<str>, dim: Dim },
    /// Policies are others.
    Policies,
    /// A priority class lets its replicas take the place of others, and did not.
    PriorityClass(Arc<str>),
}
