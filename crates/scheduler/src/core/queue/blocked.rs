//! Which classes wait for what: an event finds those it can help without asking the others.
//!
//! A class is blocked by the first thing found on every node, and by quotas and policies before that. It can be placed only once,
//! on some node, that very thing is gone; so it is enough to look for it when that changes.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::blocker::Blocker;
use crate::core::class::ClassIx;
use crate::core::cluster::event::Event;
use crate::core::cluster::node::NodeIx;
use crate::core::cluster::topology::Domain;

/// What a node is to a class, the rules about others aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    Fits,
    /// It suits, and this is what it has too little of.
    Lacks(Blocker),
    Unsuited,
}

#[derive(Clone, Debug, Default)]
pub struct Blocked {
    index: BTreeMap<Blocker, BTreeSet<ClassIx>>,
}

impl Blocked {
    pub fn insert(&mut self, class: ClassIx, blockers: &BTreeSet<Blocker>) {
        for blocker in blockers {
            self.index.entry(blocker.clone()).or_default().insert(class);
        }
    }

    pub fn remove(&mut self, class: ClassIx, blockers: &BTreeSet<Blocker>) {
        for blocker in blockers {
            if let Some(classes) = self.index.get_mut(blocker) {
                classes.remove(&class);
                if classes.is_empty() {
                    self.index.remove(blocker);
                }
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Those an event could help. What happened to one node helps those who fit there now; and whoever lacks something there that it
    /// does not wait for yet has to look again, so that it does.
    pub fn helped_by(
        &self,
        event: &Event,
        zone_of: impl Fn(NodeIx) -> Option<Domain>,
        fit: impl Fn(ClassIx, NodeIx) -> Fit,
    ) -> Vec<ClassIx> {
        let fits = |class: ClassIx, node: NodeIx| match fit(class, node) {
            Fit::Fits => true,
            Fit::Lacks(blocker) => !self.index.get(&blocker).is_some_and(|it| it.contains(&class)),
            Fit::Unsuited => false,
        };
        let in_zone = |node: NodeIx, blocker: &dyn Fn(Domain) -> Blocker| {
            let classes = zone_of(node).and_then(|zone| self.index.get(&blocker(zone)));
            classes.into_iter().flatten().copied().filter(|class| fits(*class, node)).collect()
        };
        let all = |blocker: &Blocker| self.index.get(blocker).into_iter().flatten().copied();
        match event {
            Event::Room { node, dim } => in_zone(*node, &|zone| Blocker::Room { zone, dim: *dim }),
            Event::Port { node } => in_zone(*node, &|zone| Blocker::Port { zone }),
            Event::Node { node } => all(&Blocker::Nodes).filter(|class| fits(*class, *node)).collect(),
            Event::Places => all(&Blocker::Places).collect(),
            Event::Tally(tally) => all(&Blocker::Tally(*tally)).collect(),
            Event::Company(tally) => all(&Blocker::Company(*tally)).collect(),
            Event::Quota { namespace, dim } => {
                all(&Blocker::Quota { namespace: namespace.clone(), dim: *dim }).collect()
            }
            Event::Policies => all(&Blocker::Policies).collect(),
            Event::PriorityClass(name) => all(&Blocker::PriorityClass(name.clone())).collect(),
        }
    }
}
