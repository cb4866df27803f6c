//! Who is bound where. Two records say it, the binding and its replica, and come in any order; what was only just decided is there
//! before either of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_types::Revision;

use super::Cluster;
use super::event::Event;
use super::node::{NodeIx, Port, Resident};
use super::resource::{Demand, Dim};
use super::tally::{GroupIx, GroupKey};

/// What a binding says: somebody has this of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub node: NodeIx,
    pub demand: Demand,
    pub ports: Arc<[Port]>,
    /// Its release was asked for.
    pub is_going: bool,
}

/// What the replica says about itself that others count by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traits {
    pub group: GroupKey,
    pub priority: i32,
    pub artifact: Option<Arc<str>>,
}

/// How sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The cache has shown it.
    Seen,
    /// It was decided, and nobody has answered yet.
    Assumed,
    /// The server has taken it, and the cache will show it.
    Committed(Revision),
}

#[derive(Clone, Debug)]
struct Bound {
    held: Option<Held>,
    standing: Standing,
    traits: Option<(Traits, GroupIx)>,
}

/// What is to change of a record.
struct Patch {
    held: Option<Option<Held>>,
    standing: Standing,
    /// The share in their group is taken already.
    traits: Option<Option<(Traits, GroupIx)>>,
}

/// By namespace and name of the replica.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    records: BTreeMap<Arc<str>, Bound>,
}

impl Bounds {
    pub fn held(&self, key: &str) -> Option<&Held> {
        self.records.get(key)?.held.as_ref()
    }

    pub fn standing(&self, key: &str) -> Option<Standing> {
        self.records.get(key).filter(|it| it.held.is_some()).map(|it| it.standing)
    }

    pub fn traits(&self, key: &str) -> Option<&Traits> {
        self.records.get(key)?.traits.as_ref().map(|it| &it.0)
    }

    /// Everybody who has a node.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Held)> {
        self.records.iter().filter_map(|(key, bound)| bound.held.as_ref().map(|held| (key, held)))
    }
}

pub fn namespace_of(key: &str) -> &str {
    key.split_once('/').map_or("", |(namespace, _)| namespace)
}

impl Cluster {
    /// The cache shows a binding; none if it is released or gone.
    pub fn see_binding(&mut self, key: &str, held: Option<Held>) {
        self.change(key, Patch { held: Some(held), standing: Standing::Seen, traits: None });
    }

    /// The cache shows the replica of a binding.
    pub fn see_traits(&mut self, key: &str, traits: Option<Traits>) {
        if self.bounds.traits(key) == traits.as_ref() {
            return;
        }
        let standing = self.bounds.records.get(key).map_or(Standing::Seen, |it| it.standing);
        let traits = traits.map(|traits| self.with_group(traits));
        self.change(key, Patch { held: None, standing, traits: Some(traits) });
    }

    /// Somebody was given a node, and nobody has answered yet.
    pub fn assume(&mut self, key: &str, held: Held, traits: Traits) {
        let traits = Some(self.with_group(traits));
        self.change(key, Patch { held: Some(Some(held)), standing: Standing::Assumed, traits: Some(traits) });
    }

    /// Members of a group share its key: labels of a hundred thousand replicas would be most of what is in memory.
    fn with_group(&mut self, traits: Traits) -> (Traits, GroupIx) {
        let (group, key) = self.tallies.use_group(traits.group);
        (Traits { group: key, ..traits }, group)
    }

    /// The server has taken it at this revision.
    pub fn commit(&mut self, key: &str, revision: Revision) {
        if let Some(bound) = self.bounds.records.get_mut(key)
            && bound.standing == Standing::Assumed
        {
            bound.standing = Standing::Committed(revision);
            let bound = bound.clone();
            self.settle(&bound);
        }
    }

    /// It did not come to be. What the cache has shown stays.
    pub fn forget(&mut self, key: &str) {
        if matches!(self.bounds.standing(key), Some(Standing::Assumed | Standing::Committed(_))) {
            self.change(key, Patch { held: Some(None), standing: Standing::Seen, traits: Some(None) });
        }
    }

    /// Its release was asked for.
    pub fn set_going(&mut self, key: &str) {
        let Some((held, standing)) = self.bounds.held(key).cloned().zip(self.bounds.standing(key)) else {
            return;
        };
        let held = Some(Held { is_going: true, ..held });
        self.change(key, Patch { held: Some(held), standing, traits: None });
    }

    /// Changes a record, and everything that follows from it.
    fn change(&mut self, key: &str, patch: Patch) {
        let (key, mut bound) = match self.bounds.records.remove_entry(key) {
            Some(entry) => entry,
            None => (key.into(), Bound { held: None, standing: Standing::Seen, traits: None }),
        };
        let before = bound.clone();
        bound.standing = patch.standing;
        if let Some(held) = patch.held {
            bound.held = held;
        }
        let has_new_group = patch.traits.is_some();
        if let Some(traits) = patch.traits {
            bound.traits = traits;
        }
        if (&before.held, &before.traits) != (&bound.held, &bound.traits) {
            self.count(&key, &before, false);
            self.count(&key, &bound, true);
        } else if before.standing == Standing::Assumed && bound.standing != Standing::Assumed {
            self.settle(&bound);
        }
        if let Some((_, group)) = before.traits
            && has_new_group
        {
            self.tallies.release_group(group);
        }
        if let Some(held) = before.held {
            self.nodes.vacate(held.node);
        }
        if bound.held.is_some() || bound.traits.is_some() {
            self.bounds.records.insert(key, bound);
        }
    }

    /// Nobody can refuse any more what was assumed: others may rely on it.
    fn settle(&mut self, bound: &Bound) {
        if let (Some(held), Some((_, group))) = (&bound.held, &bound.traits) {
            let sure = self.tallies.settle(*group, held.node, &self.topologies);
            self.events.extend(sure.into_iter().map(Event::Company));
        }
    }

    /// Adds what somebody has and counts for, or takes it away.
    fn count(&mut self, key: &Arc<str>, bound: &Bound, is_more: bool) {
        let Some(held) = &bound.held else { return };
        let node = held.node;
        for (dim, amount) in held.demand.iter() {
            self.nodes.widen(dim.index() + 1);
            self.give(node, *dim, if is_more { -amount } else { *amount }, 0);
        }
        let namespace = namespace_of(key);
        self.quotas.charge(namespace, self.zone_of(node), &held.demand, is_more);
        if !is_more {
            let dims: Vec<Dim> = held.demand.iter().map(|it| it.0).chain([Dim::REPLICAS]).collect();
            self.quota_events(namespace, dims.into_iter());
        }
        self.reside(key, held, bound.traits.as_ref().map(|it| it.0.priority), is_more);
        if let Some((traits, group)) = &bound.traits {
            let is_assumed = bound.standing == Standing::Assumed;
            let changed = self.tallies.count(*group, node, is_more, is_assumed, &self.topologies);
            self.events.extend(changed.into_iter().map(Event::Tally));
            if let Some(artifact) = &traits.artifact {
                self.count_artifact(artifact, node, is_more);
            }
        }
    }

    fn reside(&mut self, key: &Arc<str>, held: &Held, priority: Option<i32>, is_more: bool) {
        let residents = &mut self.nodes.residents[held.node.index()];
        if is_more {
            residents.push(Resident {
                key: key.clone(),
                priority,
                demand: held.demand.clone(),
                ports: held.ports.clone(),
                is_going: held.is_going,
            });
            return;
        }
        if let Some(at) = residents.iter().position(|it| it.key == *key) {
            residents.swap_remove(at);
        }
        if !held.ports.is_empty() {
            self.events.insert(Event::Port { node: held.node });
        }
    }

    fn count_artifact(&mut self, artifact: &Arc<str>, node: NodeIx, is_more: bool) {
        let key = (artifact.clone(), node);
        if is_more {
            *self.artifacts.entry(key).or_default() += 1;
        } else if let Some(count) = self.artifacts.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.artifacts.remove(&key);
            }
        }
    }

    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }
}
