//! Whose key it is.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Somebody who is to have a fair share of a controller's work: most often a namespace.
///
/// Only a hash is kept. Two names with the same one share a turn, which costs them time and nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(u64);

impl Tenant {
    /// The tenant of this name, the same in every process.
    pub fn named<N: Hash + ?Sized>(name: &N) -> Self {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Self(hasher.finish())
    }

    pub(super) fn hash(self) -> u64 {
        self.0
    }
}

/// Says whose key it is. Must be pure: a queue asks once per key it takes in, and believes the answer for as long as it knows
/// the key.
pub struct TenantOf<K>(Arc<dyn Fn(&K) -> Tenant + Send + Sync>);

impl<K> TenantOf<K> {
    pub fn new(tenant: impl Fn(&K) -> Tenant + Send + Sync + 'static) -> Self {
        Self(Arc::new(tenant))
    }

    /// All keys are one tenant's.
    pub fn single() -> Self {
        Self::new(|_| Tenant::default())
    }

    pub(super) fn ask(&self, key: &K) -> Tenant {
        (self.0)(key)
    }
}

impl<K> fmt::Debug for TenantOf<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TenantOf")
    }
}
