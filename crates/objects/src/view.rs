//! A value as the schema sees it: what of it is a field of its own, and what is one value.
//!
//! Every walk over values (which paths there are, what changed, merging, removing) asks here, so that all of them cut an object
//! into the same fields. A value that does not fit its schema (an item without its key, the same member twice, an object
//! where a list should be) is one value: whatever was stored under an older schema can still be owned and replaced.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::fields::{FieldSet, Scalar, Step, push_field};
use crate::topology::{ListMerge, NodeId, Shape, Topology};

/// What of a value is a field of its own.
pub(crate) enum View<'v> {
    /// Nothing: it is one value.
    Leaf,
    Object(&'v Map<String, Value>),
    /// Of a list that is a map, in its order.
    Items(Vec<(Step, &'v Value)>),
    /// Of a list that is a set, in its order.
    Members(Vec<(Step, &'v Value)>),
}

/// A place in an object: the node, and the fields that are the keys of an item and thereby part of its path.
#[derive(Clone, Copy)]
pub(crate) struct Place<'t> {
    pub topology: &'t Topology,
    pub node: NodeId,
    pub keys: &'t [String],
}

impl<'t> Place<'t> {
    pub fn new(topology: &'t Topology, node: NodeId) -> Self {
        Self { topology, node, keys: &[] }
    }

    pub fn field(self, name: &str) -> Self {
        Self::new(self.topology, self.topology.field(self.node, name).unwrap_or(NodeId::ANY))
    }

    pub fn item(self) -> Self {
        let keys = match self.topology.shape(self.node) {
            Shape::List { merge: ListMerge::Map(keys), .. } => keys.as_slice(),
            _ => &[],
        };
        Self { topology: self.topology, node: self.topology.items(self.node), keys }
    }

    pub fn is_key(self, name: &str) -> bool {
        self.keys.iter().any(|key| key == name)
    }

    pub fn view(self, value: &Value) -> View<'_> {
        match (value, self.topology.shape(self.node)) {
            (Value::Object(_), Shape::Object { atomic: true, .. }) => View::Leaf,
            (Value::Object(object), Shape::Object { .. } | Shape::Any) => View::Object(object),
            (Value::Array(array), Shape::List { merge, .. }) => match merge {
                ListMerge::Atomic => View::Leaf,
                ListMerge::Set => distinct(array, |item| Scalar::of(item).map(Step::Member))
                    .map_or(View::Leaf, View::Members),
                ListMerge::Map(_) => {
                    distinct(array, |item| self.step_to(item).ok()).map_or(View::Leaf, View::Items)
                }
            },
            _ => View::Leaf,
        }
    }

    /// The step to an item of this list that is a map; or the key it lacks.
    pub fn step_to(self, item: &Value) -> Result<Step, &'t str> {
        let place = self.item();
        let mut keys = Vec::with_capacity(place.keys.len());
        for key in place.keys {
            let default = || place.topology.default(place.field(key).node);
            let value = item.get(key).filter(|value| !value.is_null()).or_else(default);
            let scalar = value.and_then(Scalar::of).ok_or(key.as_str())?;
            keys.push((key.clone(), scalar));
        }
        if item.is_object() {
            Ok(Step::item(keys))
        } else {
            Err(place.keys.first().map_or("", String::as_str))
        }
    }

    /// Every path of a value, written down below `at`: what [`Self::paths`] finds, without a set of it. Not sorted.
    pub fn print_paths(self, value: &Value, at: &mut String, lines: &mut Vec<String>) {
        let back = at.len();
        let count = lines.len();
        match self.view(value) {
            View::Leaf => {}
            View::Object(object) => {
                for (name, value) in object.iter().filter(|(name, _)| !self.is_key(name)) {
                    push_field(at, name);
                    self.field(name).print_paths(value, at, lines);
                    at.truncate(back);
                }
            }
            View::Items(items) => {
                for (step, item) in items {
                    step.write(at);
                    self.item().print_element(item, at, lines);
                    at.truncate(back);
                }
            }
            View::Members(members) => {
                for (step, _) in members {
                    step.write(at);
                    lines.push(at.clone());
                    at.truncate(back);
                }
            }
        }
        // What is one value, and what is empty, which is somebody's decision, too.
        if lines.len() == count {
            lines.push(at.clone());
        }
    }

    /// The same of an item, which is itself a path beside those in it.
    pub fn print_element(self, item: &Value, at: &mut String, lines: &mut Vec<String>) {
        let first = lines.len();
        self.print_paths(item, at, lines);
        // Unless it has nothing but its keys and is there already.
        if lines.get(first).is_none_or(|line| line != at) {
            lines.push(at.clone());
        }
    }

    /// Every path of a value, seen from here.
    pub fn paths(self, value: &Value) -> FieldSet {
        let mut set = FieldSet::new();
        match self.view(value) {
            View::Leaf => set.member = true,
            View::Object(object) => {
                for (name, value) in object.iter().filter(|(name, _)| !self.is_key(name)) {
                    set.graft_named(name, self.field(name).paths(value));
                }
            }
            View::Items(items) => {
                for (step, item) in items {
                    let mut below = self.item().paths(item);
                    below.member = true;
                    set.graft(step, below);
                }
            }
            View::Members(members) => {
                for (step, _) in members {
                    set.graft(step, FieldSet::leaf());
                }
            }
        }
        // What is empty is somebody's decision, too.
        set.member |= set.below.is_empty();
        set
    }
}

/// The steps to all elements, if each has one of its own.
fn distinct<'v>(
    array: &'v [Value],
    step: impl Fn(&'v Value) -> Option<Step>,
) -> Option<Vec<(Step, &'v Value)>> {
    let steps: Vec<(Step, &Value)> =
        array.iter().map(|item| Some((step(item)?, item))).collect::<Option<_>>()?;
    let mut seen = BTreeSet::new();
    steps.iter().all(|(step, _)| seen.insert(step)).then_some(steps)
}

/// Every path of a document `{"metadata": …, "spec": …}`. An empty section is nobody's decision.
pub(crate) fn document_paths(topology: &Topology, document: &Value) -> FieldSet {
    let mut set = FieldSet::new();
    for (name, value) in document.as_object().into_iter().flatten() {
        let section = Place::new(topology, topology.section(name));
        if !is_empty_section(section, value) {
            set.graft(Step::field(name), section.paths(value));
        }
    }
    set
}

/// The same as their notation, sorted.
pub(crate) fn document_lines(topology: &Topology, document: &Value) -> Vec<String> {
    let (mut lines, mut at) = (Vec::new(), String::new());
    for (name, value) in document.as_object().into_iter().flatten() {
        print_section(topology, name, value, &mut at, &mut lines);
    }
    lines.sort_unstable();
    lines
}

/// Adds every path of one section, not sorted. An empty section is nobody's decision.
pub(crate) fn print_section(
    topology: &Topology,
    name: &str,
    value: &Value,
    at: &mut String,
    lines: &mut Vec<String>,
) {
    let section = Place::new(topology, topology.section(name));
    if !is_empty_section(section, value) {
        push_field(at, name);
        section.print_paths(value, at, lines);
        at.clear();
    }
}

/// Whether something can be in it: an object or a list.
pub(crate) fn is_deep(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

pub(crate) fn is_empty_section(section: Place<'_>, value: &Value) -> bool {
    value.is_null() || matches!(section.view(value), View::Object(object) if object.is_empty())
}
