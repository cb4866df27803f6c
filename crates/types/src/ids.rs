//! Newtypes for the numbers that would otherwise be confused with one another.
//!
//! Each has only the arithmetic its meaning allows. As JSON each is the bare number or text.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A position in the store's one global history.
///
/// An empty store is at revision 1 and its first write makes 2, as in etcd. Zero means "none".
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
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
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// So much later.
    #[must_use]
    pub fn plus(self, time: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
    }

    /// How long after another one it is; nothing if it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// How often a lease has changed hands. No two holders of one lease share an epoch, and it never goes back, not even when the
/// lease is deleted and made again. Zero means "never held".
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    #[must_use]
    pub const fn successor(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// How often an object's spec has changed, counting its creation as the first time. Zero means "none seen yet".
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Generation(pub u64);

impl Generation {
    /// Of an object just created.
    pub const FIRST: Self = Self(1);

    #[must_use]
    pub const fn successor(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Tells an object from an earlier or later one of the same kind, namespace and name.
///
/// Opaque: only equality means anything. Empty means "not said".
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Uid(String);

impl Uid {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// A fresh uid out of 128 random bits that the caller drew: a version 4 UUID (RFC 9562).
    pub fn from_random(bits: u128) -> Self {
        const VERSION: u128 = 0x4 << 76;
        const VARIANT: u128 = 0x2 << 62;
        let bits = bits & !(0xf << 76) & !(0x3 << 62) | VERSION | VARIANT;
        let hex = format!("{bits:032x}");
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        Self(parts.join("-"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_a_version_4_uuid() {
        assert_eq!(Uid::from_random(0).as_str(), "00000000-0000-4000-8000-000000000000");
        assert_eq!(Uid::from_random(u128::MAX).as_str(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(
            Uid::from_random(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef).as_str(),
            "01234567-89ab-4def-8123-456789abcdef"
        );
    }

    #[test]
    fn ids_are_bare_numbers_and_text_in_json() {
        let json = serde_json::to_string(&(Epoch(3), Generation::FIRST, Revision::new(9), Uid::new("u")));
        assert_eq!(json.unwrap(), r#"[3,1,9,"u"]"#);
    }
}
