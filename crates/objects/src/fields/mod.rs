//! Sets of field paths.
//!
//! A set is a trie, and each node of it is a set again: of the paths below. A path is *at or below* another if it begins with
//! it. Whether a path that has others below it is itself in the set matters: `.spec.ports[port=80]` says that the item is
//! there, `.spec.ports[port=80].name` says what it is called.
//!
//! Not here: how a schema cuts values into fields (`view`).

mod notation;
mod step;

use std::collections::BTreeMap;

pub use notation::{BadPath, push_field};
pub use step::{Scalar, Step};

use serde_json::Value;

use crate::merge::remove_from_document;
use crate::topology::Topology;
use crate::view::document_paths;

/// A set of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Whether the path to this node is itself in the set.
    pub(crate) member: bool,
    pub(crate) below: BTreeMap<Step, FieldSet>,
}

impl FieldSet {
    pub fn new() -> Self {
        Self::default()
    }

    /// Only the empty path: what a leaf is, seen from itself.
    pub(crate) fn leaf() -> Self {
        Self { member: true, below: BTreeMap::new() }
    }

    /// The fields of a document `{"metadata": …, "spec": …, "status": …}`.
    pub fn of(topology: &Topology, document: &Value) -> Self {
        document_paths(topology, document)
    }

    /// Takes these fields out of a document. What that leaves empty goes, too, unless it is in `keep`.
    pub fn remove_from(&self, topology: &Topology, document: &mut Value, keep: &Self) {
        remove_from_document(topology, document, self, keep);
    }

    pub fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }

    /// How many paths.
    pub fn len(&self) -> usize {
        usize::from(self.member) + self.below.values().map(Self::len).sum::<usize>()
    }

    pub fn insert(&mut self, path: &[Step]) {
        let mut node = self;
        for step in path {
            node = node.below.entry(step.clone()).or_default();
        }
        node.member = true;
    }

    pub fn contains(&self, path: &[Step]) -> bool {
        self.at(path).is_some_and(|node| node.member)
    }

    /// The set of what follows `path`, if anything at or below it is in the set.
    pub fn at(&self, path: &[Step]) -> Option<&Self> {
        path.iter().try_fold(self, |node, step| node.below.get(step))
    }

    /// Hangs a set below a step; nothing if it is empty.
    pub(crate) fn graft(&mut self, step: Step, set: Self) {
        if !set.is_empty() {
            self.below.entry(step).or_default().add(set);
        }
    }

    /// The same below a field.
    pub(crate) fn graft_named(&mut self, name: &str, set: Self) {
        if !set.is_empty() {
            self.graft(Step::field(name), set);
        }
    }

    /// Adds all of another set.
    pub fn add(&mut self, other: Self) {
        self.member |= other.member;
        for (step, set) in other.below {
            match self.below.entry(step) {
                std::collections::btree_map::Entry::Vacant(entry) => {
                    entry.insert(set);
                }
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut().add(set),
            }
        }
    }

    pub fn union(mut self, other: &Self) -> Self {
        self.add(other.clone());
        self
    }

    /// The paths of both.
    pub fn intersection(&self, other: &Self) -> Self {
        let below = self.below.iter().filter_map(|(step, set)| {
            let both = set.intersection(other.below.get(step)?);
            (!both.is_empty()).then(|| (step.clone(), both))
        });
        Self { member: self.member && other.member, below: below.collect() }
    }

    /// The paths that are not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        let below = self.below.iter().filter_map(|(step, set)| {
            let rest = match other.below.get(step) {
                Some(other) => set.difference(other),
                None => set.clone(),
            };
            (!rest.is_empty()).then(|| (step.clone(), rest))
        });
        Self { member: self.member && !other.member, below: below.collect() }
    }

    /// The paths that are not at or below one of `roots`.
    pub fn without_below(&self, roots: &Self) -> Self {
        if roots.member {
            return Self::new();
        }
        let below = self.below.iter().filter_map(|(step, set)| {
            let rest = match roots.below.get(step) {
                Some(roots) => set.without_below(roots),
                None => set.clone(),
            };
            (!rest.is_empty()).then(|| (step.clone(), rest))
        });
        Self { member: self.member, below: below.collect() }
    }

    /// The paths at or below one of `roots`.
    pub fn only_below(&self, roots: &Self) -> Self {
        if roots.member {
            return self.clone();
        }
        let below = self.below.iter().filter_map(|(step, set)| {
            let part = set.only_below(roots.below.get(step)?);
            (!part.is_empty()).then(|| (step.clone(), part))
        });
        Self { member: false, below: below.collect() }
    }

    /// The paths with nothing of `others` at or below them.
    pub fn free_of(&self, others: &Self) -> Self {
        let below = self.below.iter().filter_map(|(step, set)| {
            let free = match others.below.get(step) {
                Some(others) => set.free_of(others),
                None => set.clone(),
            };
            (!free.is_empty()).then(|| (step.clone(), free))
        });
        Self { member: self.member && others.is_empty(), below: below.collect() }
    }

    /// Every path, parents first.
    pub fn paths(&self) -> Vec<Vec<Step>> {
        let mut paths = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect_paths(&self, at: &mut Vec<Step>, paths: &mut Vec<Vec<Step>>) {
        if self.member {
            paths.push(at.clone());
        }
        for (step, set) in &self.below {
            at.push(step.clone());
            set.collect_paths(at, paths);
            at.pop();
        }
    }
}
