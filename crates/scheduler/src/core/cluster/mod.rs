//! The cluster as the scheduler sees it: nodes, who is bound where, quotas, and how replicas are spread. Kept by changes as they
//! come, in any order; whoever is bound counts once, whether the caches have shown it or it was only just decided.
//!
//! - [`node`], [`resource`], [`topology`]: what nodes have and where they are
//! - [`bound`]: who is bound; [`aside`]: who is thought away
//! - [`tally`], [`quota`]: what follows from it
//! - [`event`]: what is told to those who wait
//!
//! Not here: who waits (`queue`), and whether something fits (`filter`).

pub mod aside;
pub mod bound;
pub mod event;
pub mod node;
pub mod quota;
pub mod resource;
pub mod tally;
pub mod topology;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bound::Bounds;
use event::Event;
use node::{Attributes, NodeIx, Nodes, Nomination};
use quota::{Limits, Quotas};
use resource::{Dim, Dimensions};
use setpoint_types::Revision;
use setpoint_types::quantity::Amounts;
use tally::{Subject, Tallies, TallyIx};
use topology::{Domain, Topologies, TopologyIx};

use super::class::ClassIx;

/// The cluster as it is seen. Not clones of it are compared, but what can be asked.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    pub(crate) dimensions: Dimensions,
    pub(crate) topologies: Topologies,
    pub(crate) nodes: Nodes,
    pub(crate) tallies: Tallies,
    pub(crate) quotas: Quotas,
    pub(crate) bounds: Bounds,
    /// What each zone has, of the nodes that are there, and what is free of it. By zone, then by dimension.
    zones: BTreeMap<Domain, ZoneShare>,
    /// How many replicas of an artifact a node has.
    artifacts: BTreeMap<(Arc<str>, NodeIx), u32>,
    events: BTreeSet<Event>,
}

#[derive(Clone, Debug, Default)]
struct ZoneShare {
    capacity: Vec<i64>,
    free: Vec<i64>,
}

impl Cluster {
    /// A node came or changed. What it has is what its ledger is limited to: capacity without what is kept for the host.
    pub fn set_node(&mut self, name: &str, attributes: Attributes, capacity: &Amounts, revision: Revision) {
        let capacity = self.dimensions.demand(capacity);
        self.nodes.widen(self.dimensions.len());
        let node = self.nodes.slot(name);
        self.nodes.revisions[node.index()] = revision;
        self.locate(node, Some((&attributes.zone, &attributes.labels)));
        if self.nodes.attributes[node.index()].as_ref() != Some(&attributes) {
            self.nodes.attributes[node.index()] = Some(attributes);
            self.node_changed(node);
        }
        self.set_capacity(node, &capacity);
    }

    /// What is bound there counts on, and where it is, too, until it is released.
    pub fn remove_node(&mut self, name: &str) {
        let Some(node) = self.nodes.get(name) else { return };
        self.set_capacity(node, &[]);
        if self.nodes.attributes[node.index()].take().is_some() {
            self.node_changed(node);
        }
        self.nodes.vacate(node);
    }

    fn node_changed(&mut self, node: NodeIx) {
        self.nodes.stamp += 1;
        self.events.insert(Event::Node { node });
        self.events.insert(Event::Places);
    }

    /// The slot of a node for a binding, which may be seen before its node, or after it is gone.
    pub fn slot(&mut self, node: &str, zone: &str) -> NodeIx {
        self.nodes.widen(self.dimensions.len());
        let is_new = self.nodes.get(node).is_none();
        let node = self.nodes.slot(node);
        if is_new {
            self.locate(node, Some((zone, &BTreeMap::new())).filter(|_| !zone.is_empty()));
        }
        node
    }

    /// Says where a node is, while the sums over zones and places stay right.
    fn locate(&mut self, node: NodeIx, place: Option<(&str, &BTreeMap<String, String>)>) {
        let before = self.zone_of(node);
        let moved = self.topologies.set(node, place);
        let after = self.zone_of(node);
        if before != after {
            self.recharge_zone(node, before, after);
        }
        // Who counts nobody counts nobody elsewhere: a new node costs no look at all that is counted.
        if self.nodes.residents[node.index()].is_empty() {
            return;
        }
        for topology in moved {
            self.tallies.recount(topology, &self.topologies);
        }
    }

    /// The zone of a node cannot be changed, but bindings may be seen before their node.
    fn recharge_zone(&mut self, node: NodeIx, before: Option<Domain>, after: Option<Domain>) {
        for resident in self.nodes.residents[node.index()].clone() {
            let namespace = bound::namespace_of(&resident.key);
            self.quotas.charge(namespace, before, &resident.demand, false);
            self.quotas.charge(namespace, after, &resident.demand, true);
        }
        for dim in (0..self.dimensions.len() as u32).map(Dim) {
            let (capacity, free) = (self.nodes.capacity(dim, node), self.nodes.free(dim, node));
            self.share(before, dim, -capacity, -free);
            self.share(after, dim, capacity, free);
        }
    }

    fn share(&mut self, zone: Option<Domain>, dim: Dim, capacity: i64, free: i64) {
        let Some(zone) = zone else { return };
        let share = self.zones.entry(zone).or_default();
        for column in [&mut share.capacity, &mut share.free] {
            if column.len() <= dim.index() {
                column.resize(dim.index() + 1, 0);
            }
        }
        share.capacity[dim.index()] += capacity;
        share.free[dim.index()] += free;
    }

    fn set_capacity(&mut self, node: NodeIx, capacity: &[(Dim, i64)]) {
        for dim in (0..self.dimensions.len() as u32).map(Dim) {
            let wanted = capacity.iter().find(|(it, _)| *it == dim).map_or(0, |(_, amount)| *amount);
            let more = wanted - self.nodes.capacity(dim, node);
            if more != 0 {
                self.nodes.capacity[dim.index()][node.index()] += more;
                self.give(node, dim, more, more);
            }
        }
    }

    /// Makes more of a node free, or less.
    fn give(&mut self, node: NodeIx, dim: Dim, amount: i64, capacity: i64) {
        self.nodes.free[dim.index()][node.index()] += amount;
        self.share(self.zone_of(node), dim, capacity, amount);
        if amount > 0 {
            self.events.insert(Event::Room { node, dim });
        }
    }

    pub fn set_quota(&mut self, namespace: &str, name: &str, limits: Limits) {
        let raised = self.quotas.set(namespace, name, Some(limits));
        self.quota_events(namespace, raised.into_iter());
    }

    pub fn remove_quota(&mut self, namespace: &str, name: &str) {
        let raised = self.quotas.set(namespace, name, None);
        self.quota_events(namespace, raised.into_iter());
    }

    fn quota_events(&mut self, namespace: &str, dims: impl Iterator<Item = Dim>) {
        let namespace: Arc<str> = namespace.into();
        self.events.extend(dims.map(|dim| Event::Quota { namespace: namespace.clone(), dim }));
    }

    /// Keeps a place for a class until those who have it are gone.
    pub fn nominate(&mut self, node: NodeIx, nomination: Nomination) {
        self.nodes.nominations.entry(node).or_default().push(nomination);
    }

    /// Keeps one place less for a class: on this node, or wherever the first is. False if none was kept.
    pub fn withdraw(&mut self, class: ClassIx, node: Option<NodeIx>) -> bool {
        let is_meant = |at, it: &Nomination| it.class == class && node.is_none_or(|node| node == at);
        !self.withdraw_where(true, is_meant).is_empty()
    }

    /// Keeps nothing longer than it was meant to be. Says for whom it was.
    pub fn withdraw_expired(&mut self, now: u64) -> BTreeSet<ClassIx> {
        self.withdraw_where(false, |_, it| it.until <= now)
    }

    /// Keeps nothing on a node. Says for whom it was.
    pub fn withdraw_from(&mut self, node: NodeIx) -> BTreeSet<ClassIx> {
        self.withdraw_where(false, |at, _| at == node)
    }

    /// Keeps nothing for a class.
    pub fn withdraw_all(&mut self, class: ClassIx) {
        self.withdraw_where(false, |_, it| it.class == class);
    }

    fn withdraw_where(
        &mut self,
        only_one: bool,
        is_meant: impl Fn(NodeIx, &Nomination) -> bool,
    ) -> BTreeSet<ClassIx> {
        let mut freed: Vec<(NodeIx, Nomination)> = Vec::new();
        for (node, kept) in &mut self.nodes.nominations {
            while let Some(at) = kept.iter().position(|it| is_meant(*node, it)) {
                freed.push((*node, kept.remove(at)));
                if only_one {
                    break;
                }
            }
            if only_one && !freed.is_empty() {
                break;
            }
        }
        self.nodes.nominations.retain(|_, kept| !kept.is_empty());
        for (node, kept) in &freed {
            self.events.extend(kept.demand.iter().map(|(dim, _)| Event::Room { node: *node, dim: *dim }));
        }
        freed.into_iter().map(|it| it.1.class).collect()
    }

    /// The topology of a key, also of one that nobody has asked for yet.
    pub fn topology(&mut self, key: &str) -> TopologyIx {
        if let Some(topology) = self.topologies.get(key) {
            return topology;
        }
        let nodes = &self.nodes;
        let label = |node| nodes.attributes(node).and_then(|it| it.labels.get(key)).map(String::as_str);
        self.topologies.add(key, nodes.slots().map(label))
    }

    pub fn use_tally(&mut self, namespace: &Arc<str>, subject: Subject, topology: TopologyIx) -> TallyIx {
        self.tallies.use_tally(namespace, subject, topology, &self.topologies)
    }

    pub fn zone_of(&self, node: NodeIx) -> Option<Domain> {
        self.topologies.domain(TopologyIx::ZONE, node)
    }

    /// How much of a zone's resource is free, of a thousand.
    pub fn zone_free(&self, zone: Domain, dim: Dim) -> i64 {
        let Some(share) = self.zones.get(&zone) else { return 0 };
        let at = |column: &[i64]| column.get(dim.index()).copied().unwrap_or(0);
        let capacity = at(&share.capacity);
        if capacity <= 0 { 0 } else { permille(at(&share.free), capacity) }
    }

    /// Whether a node has a replica of this artifact, and so most likely the artifact.
    pub fn has_artifact(&self, artifact: &Arc<str>, node: NodeIx) -> bool {
        self.artifacts.contains_key(&(artifact.clone(), node))
    }

    /// What happened since this was asked last.
    pub fn take_events(&mut self) -> BTreeSet<Event> {
        std::mem::take(&mut self.events)
    }

    pub fn tell(&mut self, event: Event) {
        self.events.insert(event);
    }

    pub fn dimensions(&self) -> &Dimensions {
        &self.dimensions
    }

    pub fn dimensions_mut(&mut self) -> &mut Dimensions {
        &mut self.dimensions
    }

    pub fn topologies(&self) -> &Topologies {
        &self.topologies
    }

    pub fn topologies_mut(&mut self) -> &mut Topologies {
        &mut self.topologies
    }

    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    pub fn tallies(&self) -> &Tallies {
        &self.tallies
    }

    pub fn tallies_mut(&mut self) -> &mut Tallies {
        &mut self.tallies
    }

    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }
}

/// Of a thousand, also for numbers that would not fit if they were multiplied.
pub fn permille(part: i64, whole: i64) -> i64 {
    match part.checked_mul(1000) {
        Some(scaled) => scaled / whole,
        None => part / (whole / 1000).max(1),
    }
}
