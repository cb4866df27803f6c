//! Newtypes for the numbers that would otherwise be confused with one another.
//!
//! Each has only the arithmetic its meaning allows. `Epoch`, `Generation` and `Uid` join them with the objects that use them.

use std::fmt;

/// A position in the store's one global history.
///
/// An empty store is at revision 1 and its first write makes 2, as in etcd. Zero means "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    /// No revision: the key does not exist, or the caller did not ask for one.
    pub const NONE: Self = Self(0);
    /// The revision of an empty store.
    pub const INITIAL: Self = Self(1);
    /// After every revision that can be written.
    pub const MAX: Self = Self(i64::MAX as u64);

    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    /// The revision as etcd's wire carries it.
    pub const fn wire(self) -> i64 {
        self.0 as i64
    }

    #[must_use]
    pub const fn successor(self) -> Self {
        Self(self.0 + 1)
    }

    /// The revision before this one; the predecessor of none is none.
    #[must_use]
    pub const fn predecessor(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A member of the cluster. Never reused, not even after the member was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// The cluster a node belongs to; peers and clients of another one are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub u64);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// A lease. Zero means "no lease"; clients may choose any other number, negative ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub i64);

impl LeaseId {
    pub const NONE: Self = Self(0);

    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Wall-clock milliseconds since the Unix epoch, as stamped by the leader into each log entry.
///
/// The state machine never reads a clock: this is the only time it knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);
