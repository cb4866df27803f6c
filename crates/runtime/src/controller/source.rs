//! Where keys come from: a cache, which of its changes count, and which keys a change is about.

use std::sync::Arc;

use setpoint_client::{Dynamic, Scope, Shape};

use super::predicate::Predicate;
use crate::cache::shared::Shared;
use crate::cache::{Cache, Delta, Key, View};

/// Names the keys a change is about.
pub(crate) type Map = Arc<dyn Fn(&Delta, &mut dyn FnMut(Key)) + Send + Sync>;

/// One cache that wakes a controller.
#[derive(Clone)]
pub(crate) struct Source {
    pub cache: Arc<Shared>,
    pub role: Role,
    pub predicate: Option<Predicate>,
}

#[derive(Clone)]
pub(crate) enum Role {
    /// Its objects are what the controller is for.
    Primary,
    /// Its objects are parts of those.
    Owned,
    Mapped(Map),
}

/// What the controller is for.
#[derive(Clone, Debug)]
pub(crate) struct Primary {
    pub kind: Arc<str>,
    pub namespaced: bool,
}

impl Source {
    pub fn new<K: Shape>(cache: &Cache<K>, role: Role) -> Self {
        Self { cache: cache.shared().clone(), role, predicate: None }
    }

    pub fn is_primary(&self) -> bool {
        matches!(self.role, Role::Primary)
    }

    pub fn passes(&self, delta: &Delta) -> bool {
        self.predicate.as_ref().is_none_or(|predicate| predicate.holds(delta))
    }

    /// The keys a change is about.
    pub fn keys(&self, delta: &Delta, primary: &Primary, wake: &mut dyn FnMut(Key)) {
        match &self.role {
            Role::Primary => wake(delta.key.clone()),
            Role::Owned => owners(delta, primary, wake),
            Role::Mapped(map) => map(delta, wake),
        }
    }

    /// Everything that is there.
    pub fn view(&self) -> View<Dynamic> {
        Cache::new(self.cache.clone()).snapshot()
    }

    pub fn primary(&self) -> Primary {
        Primary { kind: self.cache.kind.clone(), namespaced: self.cache.scope != Scope::Cluster }
    }
}

/// The owner that controls it now, and the one that did before: a part that changes hands concerns both.
fn owners(delta: &Delta, primary: &Primary, wake: &mut dyn FnMut(Key)) {
    let mut told = None;
    for entry in delta.states() {
        // What cannot be read names nobody. A resync of the owner finds what it has lost.
        let Ok(metadata) = entry.metadata() else { continue };
        let Some(owner) = metadata.controller().filter(|owner| *owner.kind == *primary.kind) else {
            continue;
        };
        let namespace = if primary.namespaced { entry.key().namespace() } else { "" };
        let key = Key::new(namespace, &owner.name);
        if told.as_ref() != Some(&key) {
            wake(key.clone());
            told = Some(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use setpoint_client::Parts;
    use setpoint_types::Revision;
    use setpoint_types::object::OwnerReference;

    use super::*;
    use crate::cache::Entry;

    fn part(owner: &str, controller: bool) -> Entry {
        let mut parts = Parts::default();
        let (kind, name) = ("Workload".to_owned(), owner.to_owned());
        parts.metadata.owners = vec![OwnerReference { kind, name, controller, ..Default::default() }];
        Entry::new(Key::new("default", "part"), Revision::new(1), parts.encode()[..].into())
    }

    fn woken(delta: &Delta, namespaced: bool) -> Vec<String> {
        let mut keys = Vec::new();
        let primary = Primary { kind: "Workload".into(), namespaced };
        owners(delta, &primary, &mut |key| keys.push(key.to_string()));
        keys
    }

    #[test]
    fn a_part_wakes_the_owner_that_controls_it_and_the_one_that_did() {
        let new = Delta::initial(part("web", true));
        assert_eq!(woken(&new, true), ["default/web"]);
        assert_eq!(woken(&new, false), ["web"]);
        let same = Delta { before: Some(part("web", true)), ..new.clone() };
        assert_eq!(woken(&same, true), ["default/web"]);
        let moved = Delta { before: Some(part("old", true)), ..new.clone() };
        assert_eq!(woken(&moved, true), ["default/web", "default/old"]);
        let gone = Delta { before: new.after.clone(), after: None, ..new };
        assert_eq!(woken(&gone, true), ["default/web"]);
        assert!(woken(&Delta::initial(part("web", false)), true).is_empty());
    }
}
