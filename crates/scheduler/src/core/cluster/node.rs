//! The nodes: what each has, what is free of it, and whom it takes. Arrays by node, so that looking at all of them is cheap.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use setpoint_types::kinds::{Protocol, Taint};
use setpoint_types::{Epoch, Revision, Uid};

use super::resource::{Demand, Dim};
use crate::core::class::ClassIx;

/// A node, as long as it or something bound to it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIx(pub u32);

impl NodeIx {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A port that only one replica of a node can have.
pub type Port = (Protocol, u16);

/// Whether a node is fit to run something new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Readiness {
    Ready,
    /// Its agent has not said that it is ready.
    #[default]
    NotReady,
    /// The node monitor cannot reach it.
    Unreachable,
    DiskPressure,
    MemoryPressure,
}

/// All of a node that decides whom it takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    pub uid: Uid,
    /// The epoch of its lease.
    pub epoch: Epoch,
    pub zone: String,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    /// Cordoned, or being drained.
    pub unschedulable: bool,
    pub readiness: Readiness,
    /// What it can run replicas with. Empty: nobody has said.
    pub runtimes: Vec<String>,
}

/// Somebody on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resident {
    pub key: Arc<str>,
    /// Nothing is known of it but that it is there: then it is nobody's victim.
    pub priority: Option<i32>,
    pub demand: Demand,
    pub ports: Arc<[Port]>,
    /// Its release was asked for: its place becomes free by itself.
    pub is_going: bool,
}

/// A place that is kept for somebody until those who have it are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nomination {
    /// Whoever of the class comes first has it.
    pub class: ClassIx,
    pub priority: i32,
    pub demand: Demand,
    /// Which member of a gang it is for: they were found one after the other, and each counts on those before. 0 for others.
    pub seat: u32,
    /// Until when it is kept, in milliseconds.
    pub until: u64,
}

/// All nodes.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    by_name: BTreeMap<Arc<str>, NodeIx>,
    vacant: BTreeSet<NodeIx>,
    pub(super) names: Vec<Arc<str>>,
    pub(super) attributes: Vec<Option<Attributes>>,
    pub(super) revisions: Vec<Revision>,
    /// By dimension, then by node.
    pub(super) capacity: Vec<Vec<i64>>,
    pub(super) free: Vec<Vec<i64>>,
    pub(super) residents: Vec<Vec<Resident>>,
    pub(super) nominations: BTreeMap<NodeIx, Vec<Nomination>>,
    /// Grows with every change of an attribute.
    pub(super) stamp: u64,
}

impl Nodes {
    pub fn get(&self, name: &str) -> Option<NodeIx> {
        self.by_name.get(name).copied()
    }

    /// The place of a node of this name, also of one that only a binding names.
    pub(super) fn slot(&mut self, name: &str) -> NodeIx {
        if let Some(node) = self.by_name.get(name) {
            return *node;
        }
        let name: Arc<str> = name.into();
        let node = match self.vacant.pop_first() {
            Some(node) => node,
            None => {
                let node = NodeIx(self.names.len() as u32);
                self.names.push(name.clone());
                self.attributes.push(None);
                self.revisions.push(Revision::NONE);
                self.residents.push(Vec::new());
                for column in self.capacity.iter_mut().chain(&mut self.free) {
                    column.push(0);
                }
                node
            }
        };
        self.names[node.index()] = name.clone();
        self.by_name.insert(name, node);
        node
    }

    /// Gives the place to the next node, if nobody knows this one any more.
    pub(super) fn vacate(&mut self, node: NodeIx) {
        let index = node.index();
        if self.attributes[index].is_none() && self.residents[index].is_empty() {
            self.by_name.remove(&self.names[index]);
            self.vacant.insert(node);
            self.nominations.remove(&node);
        }
    }

    /// Makes room for dimensions that came later.
    pub(super) fn widen(&mut self, dimensions: usize) {
        let nodes = self.names.len();
        for columns in [&mut self.capacity, &mut self.free] {
            while columns.len() < dimensions {
                columns.push(vec![0; nodes]);
            }
        }
    }

    /// Places for nodes, vacant ones included.
    pub fn slots(&self) -> impl Iterator<Item = NodeIx> + use<> {
        (0..self.names.len() as u32).map(NodeIx)
    }

    /// Nodes that there are.
    pub fn present(&self) -> impl Iterator<Item = (NodeIx, &Attributes)> {
        let all = self.attributes.iter().enumerate();
        all.filter_map(|(index, it)| it.as_ref().map(|it| (NodeIx(index as u32), it)))
    }

    pub fn count(&self) -> usize {
        self.by_name.len()
    }

    pub fn name(&self, node: NodeIx) -> &Arc<str> {
        &self.names[node.index()]
    }

    /// None for a node that is gone, or was never seen.
    pub fn attributes(&self, node: NodeIx) -> Option<&Attributes> {
        self.attributes[node.index()].as_ref()
    }

    pub fn revision(&self, node: NodeIx) -> Revision {
        self.revisions[node.index()]
    }

    pub fn capacity(&self, dim: Dim, node: NodeIx) -> i64 {
        self.capacity.get(dim.index()).map_or(0, |column| column[node.index()])
    }

    /// Below zero if more is bound than the node has: its capacity was reduced.
    pub fn free(&self, dim: Dim, node: NodeIx) -> i64 {
        self.free.get(dim.index()).map_or(0, |column| column[node.index()])
    }

    pub fn residents(&self, node: NodeIx) -> &[Resident] {
        &self.residents[node.index()]
    }

    /// What is kept on a node.
    pub fn nominated(&self, node: NodeIx) -> impl Iterator<Item = &Nomination> {
        self.nominations.get(&node).into_iter().flatten()
    }

    /// How many places are kept for a class.
    pub fn nominations_of(&self, class: ClassIx) -> usize {
        self.nominations.values().flatten().filter(|it| it.class == class).count()
    }

    /// What is kept for a class, and where.
    pub fn kept_for(&self, class: ClassIx) -> Vec<(NodeIx, Nomination)> {
        let kept = self.nominations.iter().flat_map(|(node, kept)| kept.iter().map(move |it| (*node, it)));
        kept.filter(|it| it.1.class == class).map(|(node, it)| (node, it.clone())).collect()
    }

    /// Where places are kept for a gang, in the order of its members.
    pub fn seats(&self, class: ClassIx) -> Vec<NodeIx> {
        let kept = self.kept_for(class).into_iter();
        let mut seats: Vec<(u32, NodeIx)> = kept.map(|(node, it)| (it.seat, node)).collect();
        seats.sort_unstable();
        seats.into_iter().map(|it| it.1).collect()
    }

    /// Whether anything is kept anywhere: most of the time it is not.
    pub fn has_nominations(&self) -> bool {
        !self.nominations.is_empty()
    }

    pub fn has_port(&self, node: NodeIx, port: Port) -> bool {
        self.residents(node).iter().any(|resident| resident.ports.contains(&port))
    }

    pub fn stamp(&self) -> u64 {
        self.stamp
    }
}
