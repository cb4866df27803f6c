//! What differs between two versions of a value, in fields as the schema cuts them.
//!
//! Fields are named by their notation and nothing else: every update asks, and most answers are a line or two. The order of
//! items in a list that is a map, and of members in a set, is no field: a change of it is nobody's.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::fields::{Step, push_field};
use crate::topology::Topology;
use crate::view::{Place, View, is_empty_section};

/// What differs: paths, each sorted and there once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Everything at or below these is no longer what it was: gone, or something else in its place.
    pub gone: Vec<String>,
    /// New fields, and fields with a new value.
    pub set: Vec<String>,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.set.is_empty()
    }

    /// All of it: whoever owned something at or below these owns it no longer.
    pub fn touched(self) -> Vec<String> {
        let mut touched = self.gone;
        touched.extend(self.set);
        touched.sort_unstable();
        touched.dedup();
        touched
    }

    /// Adds what differs in a section that comes later in the order of names.
    pub fn and(mut self, later: Self) -> Self {
        self.gone.extend(later.gone);
        self.set.extend(later.set);
        self
    }

    /// Between two versions of one section of an object: `spec`, `status`, `metadata`.
    pub fn of_section(topology: &Topology, name: &str, old: &Value, new: &Value) -> Self {
        let place = Place::new(topology, topology.section(name));
        let mut walk = Walk::default();
        push_field(&mut walk.at, name);
        let present = |value| if is_empty_section(place, value) { None } else { Some(value) };
        match (present(old), present(new)) {
            (None, None) => {}
            (None, Some(new)) => walk.added(place, new),
            (Some(old), None) => match place.view(old) {
                View::Object(_) => walk.between(place, old, &Value::Object(Map::new())),
                _ => walk.gone(),
            },
            (Some(old), Some(new)) => walk.between(place, old, new),
        }
        let Walk { at, mut changes } = walk;
        // The section itself stays when it is empty, but is nobody's.
        if is_empty_section(place, new) {
            changes.set.retain(|line| *line != at);
        }
        changes.gone.sort_unstable();
        changes.set.sort_unstable();
        changes
    }

    /// Between two documents `{"metadata": …, "spec": …}`.
    pub fn of_documents(topology: &Topology, old: &Value, new: &Value) -> Self {
        let none = Value::Null;
        let section = |name: &str| {
            let (old, new) = (old.get(name).unwrap_or(&none), new.get(name).unwrap_or(&none));
            Self::of_section(topology, name, old, new)
        };
        section("metadata").and(section("spec")).and(section("status"))
    }
}

/// The fields of two objects, each name once. Both are in the order of their names, so that none has to be looked up.
fn side_by_side<'v>(
    old: &'v Map<String, Value>,
    new: &'v Map<String, Value>,
) -> impl Iterator<Item = (&'v str, Option<&'v Value>, Option<&'v Value>)> {
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    std::iter::from_fn(move || {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return None,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((old, _)), Some((new, _))) => old.cmp(new),
        };
        let old = if order.is_le() { old.next() } else { None };
        let new = if order.is_ge() { new.next() } else { None };
        let (name, _) = old.or(new)?;
        Some((name.as_str(), old.map(|(_, value)| value), new.map(|(_, value)| value)))
    })
}

/// A walk through both versions, and where it is.
#[derive(Default)]
struct Walk {
    at: String,
    changes: Changes,
}

impl Walk {
    fn into(&mut self, step: impl FnOnce(&mut String), walk: impl FnOnce(&mut Self)) {
        let back = self.at.len();
        step(&mut self.at);
        walk(self);
        self.at.truncate(back);
    }

    fn gone(&mut self) {
        self.changes.gone.push(self.at.clone());
    }

    fn added(&mut self, place: Place<'_>, value: &Value) {
        place.print_paths(value, &mut self.at, &mut self.changes.set);
    }

    fn between(&mut self, place: Place<'_>, old: &Value, new: &Value) {
        let (new_below, old_below) = match (place.view(old), place.view(new)) {
            (View::Leaf, View::Leaf) if old == new => return,
            (View::Object(old), View::Object(new)) => {
                self.between_fields(place, old, new);
                (new.len(), old.len())
            }
            (View::Items(old), View::Items(new)) | (View::Members(old), View::Members(new)) => {
                let lengths = (new.len(), old.len());
                self.between_elements(place, old, new);
                lengths
            }
            _ => {
                self.gone();
                return self.added(place, new);
            }
        };
        // Emptied: the empty thing is what was decided.
        if new_below == 0 && old_below > 0 {
            self.changes.set.push(self.at.clone());
        }
    }

    fn between_fields(&mut self, place: Place<'_>, old: &Map<String, Value>, new: &Map<String, Value>) {
        for (name, old, new) in side_by_side(old, new).filter(|(name, ..)| !place.is_key(name)) {
            match (old, new) {
                // An object is looked into anyway; of a list, comparing it costs less than finding its elements.
                (Some(old), Some(new)) if !old.is_object() && old == new => {}
                (Some(old), Some(new)) => {
                    self.into(|at| push_field(at, name), |walk| walk.between(place.field(name), old, new))
                }
                (None, Some(new)) => {
                    self.into(|at| push_field(at, name), |walk| walk.added(place.field(name), new));
                }
                _ => self.into(|at| push_field(at, name), Self::gone),
            }
        }
    }

    fn between_elements(&mut self, place: Place<'_>, old: Vec<(Step, &Value)>, new: Vec<(Step, &Value)>) {
        let mut left: BTreeMap<Step, &Value> = old.into_iter().collect();
        for (step, item) in new {
            let old = left.remove(&step);
            self.into(
                |at| step.write(at),
                |walk| match old {
                    // A member is its own path.
                    Some(_) if matches!(step, Step::Member(_)) => {}
                    Some(old) => walk.between(place.item(), old, item),
                    None => place.item().print_element(item, &mut walk.at, &mut walk.changes.set),
                },
            );
        }
        for step in left.into_keys() {
            self.into(|at| step.write(at), Self::gone);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_paired_by_name_whatever_the_order_they_came_in() {
        let (old, new) = (json!({"c": 1, "a": 2, "b": 3}), json!({"d": 4, "b": 5, "a": 6}));
        let (old, new) = (old.as_object().expect("an object"), new.as_object().expect("an object"));
        let number = |value: Option<&Value>| value.and_then(Value::as_u64).unwrap_or(0);
        let pairs: Vec<_> =
            side_by_side(old, new).map(|(name, old, new)| (name, number(old), number(new))).collect();
        assert_eq!(pairs, [("a", 2, 6), ("b", 3, 5), ("c", 1, 0), ("d", 0, 4)]);
    }
}
