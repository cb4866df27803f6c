//! What has changed in the caches since it was last looked at: keys only, each once, whatever happens how often. Its size is bounded by
//! that of the caches.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_client::Shape;
use setpoint_runtime::cache::{Cache, Key};
use tokio::sync::Notify;

/// Which cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Node,
    Binding,
    /// Replicas that have a node.
    Bound,
    Quota,
    Policy,
    PriorityClass,
    /// Replicas that have none. Last: what they are judged by should be known first.
    Waiting,
}

/// Keys that have to be looked at. Cheap to clone; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Inbox {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    keys: Mutex<BTreeSet<(Source, Key)>>,
    came: Notify,
}

impl Inbox {
    /// Hears of every change of a cache from now on, and of all that is in it.
    pub fn follow<K: Shape>(&self, source: Source, cache: &Cache<K>) {
        let inbox = self.clone();
        cache.observe(Box::new(move |delta| inbox.put(source, delta.key.clone())));
    }

    pub fn put(&self, source: Source, key: Key) {
        self.shared.keys.lock().insert((source, key));
        self.shared.came.notify_one();
    }

    pub fn take(&self) -> BTreeSet<(Source, Key)> {
        std::mem::take(&mut self.shared.keys.lock())
    }

    /// Waits until there is something, or was since it was last waited for.
    pub async fn came(&self) {
        self.shared.came.notified().await;
    }
}
