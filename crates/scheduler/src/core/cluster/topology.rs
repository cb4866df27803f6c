//! Which places nodes are in: their zone, themselves, and whatever their labels say.
//!
//! A *topology* is a key by which nodes are told apart, a *domain* one of its values.

use std::collections::BTreeMap;

use super::node::NodeIx;
use crate::core::interner::Interner;

/// A key by which nodes are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopologyIx(pub u32);

impl TopologyIx {
    pub const ZONE: Self = Self(0);
    pub const NODE: Self = Self(1);
}

/// A place within a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(pub u32);

const NOWHERE: u32 = u32::MAX;

/// All topologies anybody asked for, and where each node is in them.
#[derive(Clone, Debug)]
pub struct Topologies {
    keys: Interner,
    domains: Vec<Interner>,
    /// By topology, then by node. Not for [`TopologyIx::NODE`], where a node is its own domain.
    of_node: Vec<Vec<u32>>,
}

impl Default for Topologies {
    fn default() -> Self {
        Self {
            keys: Interner::with(&["zone", "node"]),
            domains: vec![Interner::default(), Interner::default()],
            of_node: vec![Vec::new(), Vec::new()],
        }
    }
}

impl Topologies {
    pub fn get(&self, key: &str) -> Option<TopologyIx> {
        self.keys.get(key).map(TopologyIx)
    }

    /// A new topology. `labels` tells the label of each node that there is.
    pub fn add<'a>(&mut self, key: &str, labels: impl Iterator<Item = Option<&'a str>>) -> TopologyIx {
        let topology = self.keys.intern(key);
        let mut domains = Interner::default();
        let of_node = labels.map(|label| label.map_or(NOWHERE, |label| domains.intern(label))).collect();
        self.domains.push(domains);
        self.of_node.push(of_node);
        TopologyIx(topology)
    }

    pub fn key(&self, topology: TopologyIx) -> &str {
        self.keys.name(topology.0)
    }

    pub fn all(&self) -> impl Iterator<Item = TopologyIx> + use<> {
        (0..self.keys.len() as u32).map(TopologyIx)
    }

    pub fn domain(&self, topology: TopologyIx, node: NodeIx) -> Option<Domain> {
        if topology == TopologyIx::NODE {
            return Some(Domain(node.0));
        }
        let domain = self.of_node[topology.0 as usize].get(node.index()).copied()?;
        (domain != NOWHERE).then_some(Domain(domain))
    }

    /// Not for [`TopologyIx::NODE`]: nodes know their names.
    pub fn domain_name(&self, topology: TopologyIx, domain: Domain) -> &str {
        self.domains[topology.0 as usize].name(domain.0)
    }

    pub fn zone(&mut self, name: &str) -> Domain {
        Domain(self.domains[TopologyIx::ZONE.0 as usize].intern(name))
    }

    pub fn zone_name(&self, zone: Domain) -> &str {
        self.domain_name(TopologyIx::ZONE, zone)
    }

    /// Says where a node is. Returns the topologies in which it was elsewhere before.
    pub fn set(&mut self, node: NodeIx, place: Option<(&str, &BTreeMap<String, String>)>) -> Vec<TopologyIx> {
        let mut moved = Vec::new();
        for topology in self.all().filter(|topology| *topology != TopologyIx::NODE) {
            let index = topology.0 as usize;
            let value = place.and_then(|(zone, labels)| match topology {
                TopologyIx::ZONE => Some(zone),
                _ => labels.get(self.keys.name(topology.0)).map(String::as_str),
            });
            let domain = value.map_or(NOWHERE, |value| self.domains[index].intern(value));
            let of_node = &mut self.of_node[index];
            if of_node.len() <= node.index() {
                of_node.resize(node.index() + 1, NOWHERE);
            }
            if std::mem::replace(&mut of_node[node.index()], domain) != domain {
                moved.push(topology);
            }
        }
        moved
    }
}
