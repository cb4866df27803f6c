//! What differs between two versions of a value, in fields as the schema cuts them.
//!
//! The order of items in a list that is a map, and of members in a set, is no field: a change of it is nobody's.

use serde_json::Value;

use crate::fields::{FieldSet, Step};
use crate::topology::Topology;
use crate::view::{Place, View, is_empty_section};

/// What differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Everything at or below these is no longer what it was: gone, or something else in its place.
    pub gone: FieldSet,
    /// New fields, and fields with a new value.
    pub set: FieldSet,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.set.is_empty()
    }

    /// All of it: whoever owned something at or below these owns it no longer.
    pub fn touched(&self) -> FieldSet {
        self.gone.clone().union(&self.set)
    }

    fn graft(&mut self, step: Step, changes: Self) {
        if !changes.gone.is_empty() {
            self.gone.graft(step.clone(), changes.gone);
        }
        self.set.graft(step, changes.set);
    }

    /// Below a field. Most fields of most updates are as they were.
    fn graft_named(&mut self, name: &str, changes: Self) {
        if !changes.is_empty() {
            self.graft(Step::field(name), changes);
        }
    }

    fn gone() -> Self {
        Self { gone: FieldSet::leaf(), set: FieldSet::new() }
    }

    fn added(place: Place<'_>, value: &Value) -> Self {
        Self { gone: FieldSet::new(), set: place.paths(value) }
    }

    /// Between two versions of one section of an object: `spec`, `status`, `metadata`.
    pub fn of_section(topology: &Topology, name: &str, old: &Value, new: &Value) -> Self {
        let place = Place::new(topology, topology.section(name));
        let mut changes = Self::default();
        if old == new {
            return changes;
        }
        let present = |value| if is_empty_section(place, value) { None } else { Some(value) };
        let below = match (present(old), present(new)) {
            (None, None) => Self::default(),
            (None, Some(new)) => Self::added(place, new),
            (Some(old), None) => match place.view(old) {
                View::Object(_) => Self::between(place, old, &Value::Object(serde_json::Map::new())),
                _ => Self::gone(),
            },
            (Some(old), Some(new)) => Self::between(place, old, new),
        };
        changes.graft(Step::field(name), below);
        // The section itself stays when it is empty, but is nobody's.
        if is_empty_section(place, new)
            && let Some(section) = changes.set.below.get_mut(&Step::field(name))
        {
            section.member = false;
        }
        changes.set.below.retain(|_, set| !set.is_empty());
        changes
    }

    /// Between two documents `{"metadata": …, "spec": …}`.
    pub fn of_documents(topology: &Topology, old: &Value, new: &Value) -> Self {
        let mut changes = Self::default();
        for name in ["metadata", "spec", "status"] {
            let none = Value::Null;
            let (old, new) = (old.get(name).unwrap_or(&none), new.get(name).unwrap_or(&none));
            let section = Self::of_section(topology, name, old, new);
            changes.gone.add(section.gone);
            changes.set.add(section.set);
        }
        changes
    }

    fn between(place: Place<'_>, old: &Value, new: &Value) -> Self {
        let mut changes = Self::default();
        let (new_below, old_below) = match (place.view(old), place.view(new)) {
            (View::Leaf, View::Leaf) if old == new => return changes,
            (View::Object(old), View::Object(new)) => {
                for (name, value) in old.iter().filter(|(name, _)| !place.is_key(name)) {
                    let below = match new.get(name) {
                        Some(new) if new == value => continue,
                        Some(new) => Self::between(place.field(name), value, new),
                        None => Self::gone(),
                    };
                    changes.graft_named(name, below);
                }
                for (name, value) in new.iter().filter(|(name, _)| !place.is_key(name)) {
                    if !old.contains_key(name) {
                        changes.graft(Step::field(name), Self::added(place.field(name), value));
                    }
                }
                (new.len(), old.len())
            }
            (View::Items(old), View::Items(new)) => {
                let lengths = (new.len(), old.len());
                changes = Self::of_elements(place, old, new);
                lengths
            }
            (View::Members(old), View::Members(new)) => {
                let lengths = (new.len(), old.len());
                changes = Self::of_elements(place, old, new);
                lengths
            }
            _ => return Self { gone: FieldSet::leaf(), set: place.paths(new) },
        };
        // Emptied: the empty thing is what was decided.
        changes.set.member |= new_below == 0 && old_below > 0;
        changes
    }

    fn of_elements(place: Place<'_>, old: Vec<(Step, &Value)>, new: Vec<(Step, &Value)>) -> Self {
        let mut changes = Self::default();
        let mut left: std::collections::BTreeMap<Step, &Value> = old.into_iter().collect();
        for (step, item) in new {
            let below = match (left.remove(&step), &step) {
                // A member is its own path.
                (Some(_), Step::Member(_)) => Self::default(),
                (Some(old), _) => Self::between(place.item(), old, item),
                (None, _) => {
                    let mut added = Self::added(place.item(), item);
                    added.set.member = true;
                    added
                }
            };
            changes.graft(step, below);
        }
        for step in left.into_keys() {
            changes.graft(step, Self::gone());
        }
        changes
    }
}
