//! Which kinds there are: those that are built in, in caches, and those that users defined, which are asked for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use setpoint_client::{Client, Dynamic, Scope};
use setpoint_runtime::ReconcileError;
use setpoint_runtime::cache::{Cache, Cached, Entry, Index};
use setpoint_runtime::informer::{Informers, Selection};
use setpoint_types::kinds::{KindDefinition, KindScope};
use setpoint_types::{Metadata, Revision, registry};
use tokio::time::timeout;

use super::owner::OwnerId;

/// They are many, own nothing and are nobody's part: they have their own ways to go.
const OUTSIDE: [&str; 3] = ["Decision", "Event", "Lease"];
/// By the kinds of an object's owners.
const BY_OWNER_KIND: &str = "owner-kind";
/// How long caches may take to see what the server has told. Longer than that they are cut off, and nothing is decided by them.
const CATCH_UP: Duration = Duration::from_secs(20);

/// All kinds.
#[derive(Clone)]
pub(super) struct Kinds {
    pub built_in: Arc<BTreeMap<&'static str, Cache<Dynamic>>>,
    pub definitions: Cache<KindDefinition>,
}

impl Kinds {
    pub fn new(informers: &Informers) -> Self {
        let collected =
            registry::kinds().iter().map(|kind| kind.info).filter(|it| !OUTSIDE.contains(&it.name));
        let built_in = collected.map(|info| {
            let cache = informers.dynamic(info.name, info.namespaced, Selection::everywhere());
            cache.add_index(Index::owner());
            cache.add_index(Index::new(BY_OWNER_KIND, |entry| {
                Ok(entry.metadata()?.owners.into_iter().map(|owner| owner.kind).collect())
            }));
            (info.name, cache)
        });
        let built_in = Arc::new(built_in.collect());
        Self { built_in, definitions: informers.cache::<KindDefinition>(Selection::everywhere()) }
    }

    /// Kinds that users defined, and whether their objects are in namespaces.
    pub fn defined(&self) -> Vec<(String, bool)> {
        let read = |definition: Cached<KindDefinition>| {
            let spec = definition.read().ok()?.spec;
            Some((spec.names.kind, spec.scope == KindScope::Namespaced))
        };
        self.definitions.snapshot().iter().filter_map(read).collect()
    }

    pub fn is_namespaced(&self, kind: &str) -> bool {
        match registry::kind(kind) {
            Some(kind) => kind.info.namespaced,
            None => self.defined().iter().find(|(name, _)| name == kind).is_none_or(|(_, it)| *it),
        }
    }

    pub fn scope(&self, owner: &OwnerId) -> Scope {
        if owner.namespace.is_empty() { Scope::Cluster } else { Scope::namespace(&owner.namespace) }
    }

    /// The very object, if a cache has it.
    pub fn cached(&self, owner: &OwnerId) -> Option<Metadata> {
        let entry = self.built_in.get(owner.kind.as_str())?.get(&owner.object_key())?;
        entry.metadata().ok().filter(|metadata| metadata.uid == owner.uid)
    }

    /// Parts of the owner that caches have, with their kinds.
    pub fn parts(&self, owner: &OwnerId) -> Vec<(&'static str, Entry)> {
        let of_kind = |(kind, cache): (&&'static str, &Cache<Dynamic>)| {
            let kind = *kind;
            cache
                .find("owner", owner.uid.as_str())
                .into_iter()
                .map(move |it| (kind, (*it).clone()))
                .collect::<Vec<_>>()
        };
        self.built_in.iter().flat_map(of_kind).collect()
    }

    /// Objects in a namespace that are parts of something of this kind.
    pub fn parts_of_kind(&self, kind: &str, namespace: &str) -> Vec<Metadata> {
        let of_cache = |cache: &Cache<Dynamic>| {
            let found = cache.find(BY_OWNER_KIND, kind).into_iter();
            let metadata =
                found.filter(|it| it.key().namespace() == namespace).filter_map(|it| it.metadata().ok());
            metadata.collect::<Vec<_>>()
        };
        self.built_in.values().flat_map(of_cache).collect()
    }

    /// Waits until the caches have seen what the server had told.
    pub async fn catch_up(&self, revision: Revision) -> Result<(), ReconcileError> {
        for cache in self.built_in.values() {
            match timeout(CATCH_UP, cache.at_least(revision)).await {
                Ok(Ok(_)) => {}
                Ok(Err(_)) => return Err(ReconcileError::retry("a cache has ended")),
                Err(_) => {
                    return Err(ReconcileError::retry(format!("the cache of {} is behind", cache.kind())));
                }
            }
        }
        Ok(())
    }

    /// All objects of the users' kinds in a namespace, or of the whole cluster.
    pub async fn of_users(
        &self,
        client: &Client,
        namespace: &str,
    ) -> Result<Vec<(String, Metadata)>, ReconcileError> {
        let mut found = Vec::new();
        for (kind, namespaced) in self.defined() {
            if namespaced == namespace.is_empty() {
                continue;
            }
            let scope = if namespaced { Scope::namespace(namespace) } else { Scope::Cluster };
            let (objects, _) = client.dynamic(&kind, scope).list_all(&Default::default()).await?;
            found.extend(objects.into_iter().map(|object| (kind.clone(), object.metadata)));
        }
        Ok(found)
    }
}
