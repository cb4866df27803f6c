//! All informers of a process: one per kind and selection, shared by everybody who wants it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::stream::{FuturesUnordered, StreamExt};
use parking_lot::Mutex;
use setpoint_client::{Client, Dynamic, Partial, Scope, Shape};
use setpoint_types::{KindType, Revision};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::driver::Driver;
use super::settings::{InformerSettings, Selection};
use crate::cache::shared::Shared;
use crate::cache::{Cache, Ended, Joint, Watermarks};

/// The informers of a process. Cheap to clone; clones are the same.
///
/// **Guarantees**: two who ask for the same kind and selection share one informer and one cache, also in different shapes.
/// After [`Informers::shutdown`] nothing is fed and nothing waits.
///
/// **Assumes** a runtime of tokio. **Does not promise** to stop an informer nobody uses any more: they run until shutdown.
#[derive(Clone)]
pub struct Informers {
    hub: Arc<Hub>,
}

struct Hub {
    client: Client,
    settings: InformerSettings,
    informers: Mutex<BTreeMap<Identity, Arc<Shared>>>,
    group: Arc<Watermarks>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// What makes two informers the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    kind: Arc<str>,
    scope: Scope,
    labels: String,
    fields: String,
    metadata_only: bool,
    transform: Option<&'static str>,
}

impl Informers {
    pub fn new(client: Client, settings: InformerSettings) -> Self {
        let client = client.with_timeout(settings.open_timeout);
        Self {
            hub: Arc::new(Hub {
                client,
                settings,
                informers: Mutex::default(),
                group: Arc::default(),
                stop: CancellationToken::new(),
                tasks: TaskTracker::new(),
            }),
        }
    }

    /// The cache of a kind; its informer is started if there is none.
    pub fn cache<K: KindType + Shape>(&self, selection: Selection) -> Cache<K> {
        let scope = selection.scope(K::INFO.namespaced);
        self.shaped(K::INFO.name, scope, selection)
    }

    /// The cache of a kind's metadata: a fraction of the memory.
    pub fn metadata<K: KindType + 'static>(&self, selection: Selection) -> Cache<Partial<K>> {
        let scope = selection.scope(K::INFO.namespaced);
        self.shaped(K::INFO.name, scope, selection)
    }

    /// The cache of a kind that only the running program knows.
    pub fn dynamic(&self, kind: &str, namespaced: bool, selection: Selection) -> Cache<Dynamic> {
        let scope = selection.scope(namespaced);
        self.shaped(kind, scope, selection)
    }

    fn shaped<S: Shape>(&self, kind: &str, scope: Scope, selection: Selection) -> Cache<S> {
        let hub = &self.hub;
        let identity = Identity {
            kind: kind.into(),
            scope: scope.clone(),
            labels: selection.labels.clone(),
            fields: selection.fields.clone(),
            metadata_only: S::METADATA_ONLY,
            transform: selection.transform.as_ref().map(|transform| transform.name()),
        };
        let mut informers = hub.informers.lock();
        if let Some(shared) = informers.get(&identity) {
            return Cache::new(shared.clone());
        }
        let (kind_name, transform) = (identity.kind.clone(), selection.transform.clone());
        let shared = Shared::new(kind_name, scope.clone(), transform, hub.group.clone());
        let api = hub.client.shaped::<S>(kind, scope);
        let driver = Driver::new(api, selection, hub.settings, shared.clone());
        hub.tasks.spawn(driver.run(hub.stop.clone()));
        informers.insert(identity, shared.clone());
        Cache::new(shared)
    }

    /// Waits until every cache there is has its first state.
    pub async fn synced(&self) -> Result<(), Ended> {
        for shared in self.all() {
            Cache::<Dynamic>::new(shared).synced().await?;
        }
        Ok(())
    }

    pub(crate) fn all(&self) -> Vec<Arc<Shared>> {
        self.hub.informers.lock().values().cloned().collect()
    }

    /// How far all caches of a kind have come; none if there is none of it, or one of them has no state yet.
    pub fn reached(&self, kind: &str) -> Option<Revision> {
        let informers = self.hub.informers.lock();
        let of_kind = informers.values().filter(|shared| &*shared.kind == kind);
        of_kind.map(|shared| shared.position()).min().flatten()
    }

    /// How far each kind has come, as [`setpoint_client::KeepAlive::keep`] tells the leader.
    pub fn observed(&self) -> BTreeMap<String, Revision> {
        let mut kinds: BTreeMap<String, Revision> = BTreeMap::new();
        for shared in self.hub.informers.lock().values() {
            let at = shared.position().unwrap_or_default();
            let least = kinds.entry(shared.kind.to_string()).or_insert(at);
            *least = at.min(*least);
        }
        kinds
    }

    /// How far all caches of a kind have come, nowhere if one of them has no state yet; none if there is none of it.
    pub(crate) fn seen(&self, kind: &str) -> Option<Revision> {
        let informers = self.hub.informers.lock();
        let of_kind = informers.values().filter(|shared| &*shared.kind == kind);
        of_kind.map(|shared| shared.position().unwrap_or_default()).min()
    }

    /// Kinds of caches that have no first state yet.
    pub(crate) fn unsynced(&self) -> BTreeSet<Arc<str>> {
        let informers = self.hub.informers.lock();
        let unsynced = informers.values().filter(|shared| shared.position().is_none());
        unsynced.map(|shared| shared.kind.clone()).collect()
    }

    /// Every kind that is cached.
    pub(crate) fn kinds(&self) -> BTreeSet<Arc<str>> {
        self.hub.informers.lock().values().map(|shared| shared.kind.clone()).collect()
    }

    /// Waits until all caches have everything up to a revision.
    pub async fn at_least(&self, revision: Revision) -> Result<(), Ended> {
        for shared in self.all() {
            Cache::<Dynamic>::new(shared).at_least(revision).await?;
        }
        Ok(())
    }

    /// Whether the cache is one of these.
    pub(crate) fn has(&self, cache: &Arc<Shared>) -> bool {
        self.hub.informers.lock().values().any(|shared| Arc::ptr_eq(shared, cache))
    }

    /// Waits until one of the informers there are feeds its cache no more.
    pub(crate) async fn any_ended(&self) {
        let all = self.all();
        let ended: FuturesUnordered<_> = all.iter().map(|shared| shared.counters.ended()).collect();
        match ended.into_future().await {
            (Some(()), _) => {}
            (None, _) => std::future::pending().await,
        }
    }

    /// Wakes whenever some cache has come further.
    pub(crate) fn moved(&self) -> &Notify {
        &self.hub.group.moved
    }

    /// Begins a joint snapshot.
    pub fn joint(&self) -> JointOf {
        JointOf { hub: self.hub.clone(), caches: Vec::new() }
    }

    /// Stops all informers, and waits until they have.
    pub async fn shutdown(&self) {
        self.hub.stop.cancel();
        self.hub.tasks.close();
        self.hub.tasks.wait().await;
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Which caches are to be seen together. Can be made once and kept.
///
/// **Guarantees**: each snapshot has all of them at one revision, and is not older than the one before it, unless the cluster
/// was restored from a backup.
/// **Assumes** that they are of the same [`Informers`]. **Does not promise** to be current: it is as old as the slowest of them.
#[must_use]
pub struct JointOf {
    hub: Arc<Hub>,
    caches: Vec<Arc<Shared>>,
}

impl JointOf {
    /// Adds a cache of the same [`Informers`].
    pub fn with<K: Shape>(mut self, cache: &Cache<K>) -> Self {
        self.caches.push(cache.shared().clone());
        self
    }

    /// The revision up to which all of them are complete; none before all have a first state.
    pub fn revision(&self) -> Option<Revision> {
        self.caches.iter().map(|cache| cache.position()).min().flatten()
    }

    /// All of them at one revision, if there is one now at which all are known.
    pub fn try_snapshot(&self) -> Option<Joint> {
        Joint::take(&self.caches)
    }

    /// The same as soon as there is one: at the latest with the next bookmark of the slowest kind, while its stream is well.
    ///
    /// It is as old as the slowest cache, and may be from before the change that woke a run: within one, ask
    /// [`crate::Run::snapshot`], or the change is missed.
    pub async fn snapshot(&self) -> Result<Joint, Ended> {
        self.snapshot_at_least(Revision::NONE).await
    }

    /// The same, not older than a revision.
    pub async fn snapshot_at_least(&self, revision: Revision) -> Result<Joint, Ended> {
        loop {
            let moved = self.hub.group.moved.notified();
            tokio::pin!(moved);
            // From here on no movement is missed.
            moved.as_mut().enable();
            if let Some(joint) = self.try_snapshot().filter(|joint| joint.revision() >= revision) {
                return Ok(joint);
            }
            tokio::select! {
                () = moved => {}
                () = self.hub.stop.cancelled() => return Err(Ended),
            }
        }
    }
}
