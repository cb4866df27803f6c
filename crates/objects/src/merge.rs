//! Puts the fields of one value into another, and takes fields out, as the schema cuts them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::fields::{FieldSet, Step};
use crate::topology::Topology;
use crate::view::{Place, View};

/// Merges a document `{"metadata": …, "spec": …}` into another.
pub(crate) fn merge_documents(topology: &Topology, live: &mut Value, config: Value) {
    let Value::Object(config) = config else { return };
    for (name, value) in config.into_iter().filter(|(_, value)| !value.is_null()) {
        match live.get_mut(&name) {
            Some(live) => merge(Place::new(topology, topology.section(&name)), live, value),
            None => drop(live.as_object_mut().map(|live| live.insert(name, value))),
        }
    }
}

/// Objects by field, lists that are maps by key, sets by member; everything else is replaced. What is new in a list comes
/// last, in the order of `config`; what was there keeps its place.
fn merge(place: Place<'_>, live: &mut Value, config: Value) {
    let (same, positions) = match (place.view(live), place.view(&config)) {
        (View::Object(_), View::Object(_)) => (true, None),
        (View::Items(live), View::Items(config)) | (View::Members(live), View::Members(config)) => {
            (true, Some(positions(&live, &config)))
        }
        _ => (false, None),
    };
    match (live, config, positions) {
        (Value::Object(live), Value::Object(config), None) if same => {
            for (name, value) in config {
                match live.get_mut(&name) {
                    Some(live) => merge(place.field(&name), live, value),
                    None => drop(live.insert(name, value)),
                }
            }
        }
        (Value::Array(live), Value::Array(config), Some(positions)) => {
            for (value, position) in config.into_iter().zip(positions) {
                match position.and_then(|position| live.get_mut(position)) {
                    Some(live) => merge(place.item(), live, value),
                    None => live.push(value),
                }
            }
        }
        (live, config, _) => *live = config,
    }
}

/// Where each element of `config` is in `live`.
fn positions(live: &[(Step, &Value)], config: &[(Step, &Value)]) -> Vec<Option<usize>> {
    let index: BTreeMap<&Step, usize> = live.iter().enumerate().map(|(at, (step, _))| (step, at)).collect();
    config.iter().map(|(step, _)| index.get(step).copied()).collect()
}

/// Takes the fields `remove` out of a document. What they leave empty goes, too, unless it is in `keep`.
pub(crate) fn remove_from_document(
    topology: &Topology,
    document: &mut Value,
    remove: &FieldSet,
    keep: &FieldSet,
) {
    for (step, remove) in &remove.below {
        let Step::Field(name) = step else { continue };
        let none = FieldSet::new();
        let keep = keep.below.get(step).unwrap_or(&none);
        let Some(section) = document.get_mut(name) else { continue };
        if remove.member {
            *section = Value::Object(Map::new());
        } else {
            take_out(Place::new(topology, topology.section(name)), section, remove, keep);
        }
    }
}

/// True if that left it empty.
fn take_out(place: Place<'_>, value: &mut Value, remove: &FieldSet, keep: &FieldSet) -> bool {
    let none = FieldSet::new();
    let goes = |place: Place<'_>, step: &Step, value: &mut Value| {
        let Some(remove) = remove.below.get(step) else { return false };
        let keep = keep.below.get(step).unwrap_or(&none);
        remove.member || (take_out(place, value, remove, keep) && !keep.member)
    };
    let steps: Option<Vec<Step>> = match place.view(value) {
        View::Leaf => return false,
        View::Object(_) => None,
        View::Items(elements) | View::Members(elements) => {
            Some(elements.into_iter().map(|(step, _)| step).collect())
        }
    };
    match (value, steps) {
        (Value::Object(object), None) => {
            let before = object.len();
            object.retain(|name, value| !goes(place.field(name), &Step::field(name), value));
            object.len() < before && object.keys().all(|name| place.is_key(name))
        }
        (Value::Array(array), Some(steps)) => {
            let before = array.len();
            let mut steps = steps.into_iter();
            array.retain_mut(|item| !steps.next().is_some_and(|step| goes(place.item(), &step, item)));
            array.len() < before && array.is_empty()
        }
        _ => false,
    }
}

/// What is at each of some paths of a document, by the notation of the path; nothing for a path that leads nowhere.
pub(crate) fn values_at<'v>(
    topology: &Topology,
    document: &'v Value,
    paths: &FieldSet,
) -> BTreeMap<String, &'v Value> {
    let mut found = BTreeMap::new();
    for (step, below) in &paths.below {
        if let Step::Field(name) = step
            && let Some(section) = document.get(name)
        {
            let place = Place::new(topology, topology.section(name));
            find(place, section, below, &mut vec![step.clone()], &mut found);
        }
    }
    found
}

/// One walk for all of them: looking each up in a long list would take the square of its length.
fn find<'v>(
    place: Place<'_>,
    value: &'v Value,
    paths: &FieldSet,
    at: &mut Vec<Step>,
    found: &mut BTreeMap<String, &'v Value>,
) {
    if paths.member {
        found.insert(Step::print(at), value);
    }
    if paths.below.is_empty() {
        return;
    }
    let mut descend = |place: Place<'_>, step: Step, value: &'v Value| {
        if let Some(below) = paths.below.get(&step) {
            at.push(step);
            find(place, value, below, at, found);
            at.pop();
        }
    };
    match place.view(value) {
        View::Leaf => {}
        View::Object(object) => {
            object.iter().for_each(|(name, value)| descend(place.field(name), Step::field(name), value));
        }
        View::Items(elements) | View::Members(elements) => {
            elements.into_iter().for_each(|(step, value)| descend(place.item(), step, value));
        }
    }
}
