//! What an informer can be told.

use std::time::Duration;

use setpoint_client::{Backoff, Scope};

use crate::cache::Transform;

/// How informers behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InformerSettings {
    /// Of a quiet stream the server sends a bookmark this often. It is how long a joint snapshot and `at_least` wait for a kind
    /// to which nothing happens. No less than 100 ms.
    pub bookmarks: Duration,
    /// A stream from which nothing came for so long, not even a bookmark, is given up, and gone on with elsewhere. Twice as long for
    /// the next if nothing was heard in between, up to 64 times: a server that is slow to begin is waited for in the end.
    pub stalled_after: Duration,
    /// Opening a stream may take so long, with all attempts of the client.
    pub open_timeout: Duration,
    /// Between a stream that ended and the next.
    pub backoff: Backoff,
    /// A stream that lasted so long was a good one: the next failure is the first again.
    pub healthy_after: Duration,
}

impl Default for InformerSettings {
    fn default() -> Self {
        Self {
            bookmarks: Duration::from_secs(1),
            stalled_after: Duration::from_secs(10),
            open_timeout: Duration::from_secs(30),
            backoff: Backoff { first: Duration::from_millis(100), max: Duration::from_secs(15) },
            healthy_after: Duration::from_secs(10),
        }
    }
}

/// Which objects of a kind, and what is kept of each. **Guarantees**: an object that leaves a selection is gone from the cache as if it were
/// deleted, and one that enters it comes. **Assumes** selectors that the server takes: with others the cache is never synced, and
/// `/readyz` says which one is waited for.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// None: everywhere. Ignored for kinds of the whole cluster.
    pub namespace: Option<String>,
    /// `app=web,tier in (a,b)`
    pub labels: String,
    /// `spec.node=n1`
    pub fields: String,
    pub transform: Option<Transform>,
}

impl Selection {
    /// All of them.
    pub fn everywhere() -> Self {
        Self::default()
    }

    pub fn namespace(namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), ..Self::default() }
    }

    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = selector.into();
        self
    }

    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = selector.into();
        self
    }

    #[must_use]
    pub fn transform(mut self, transform: Transform) -> Self {
        self.transform = Some(transform);
        self
    }

    pub(super) fn scope(&self, namespaced: bool) -> Scope {
        match (&self.namespace, namespaced) {
            (_, false) => Scope::Cluster,
            (None, true) => Scope::AllNamespaces,
            (Some(namespace), true) => Scope::namespace(namespace),
        }
    }
}
