//! What people write: selectors, paths, names and amounts.

use std::collections::BTreeMap;

use setpoint_admission::path::Path;
use setpoint_apiserver::objects::key::ObjectName;
use setpoint_objects::fields::{FieldSet, Step};
use setpoint_objects::write::{Kind, settle_key};
use setpoint_objects::{Metadata, Topology};
use setpoint_types::names;
use setpoint_types::quantity::{Amounts, CountOrPercent, Unit};
use setpoint_types::selector::{FieldSelector, LabelSelector, SelectorError};

use crate::input::Input;

/// A selector is printed as one that reads the same, and selects the same. An error is at a place in the text.
pub fn selectors(data: &[u8]) {
    let mut input = Input::new(data);
    let (labels, fields) = (input.text(), input.text());
    match LabelSelector::parse(labels) {
        Ok(selector) => {
            assert_eq!(LabelSelector::parse(&selector.to_string()).as_ref(), Ok(&selector));
            assert_eq!(selector.matches(&BTreeMap::new()), selector.matches_with(|_| None));
        }
        Err(error) => check_place(labels, &error),
    }
    const DECLARED: &[&str] = &["spec.node", "status.stage"];
    match FieldSelector::parse(fields, DECLARED) {
        Ok(selector) => {
            assert_eq!(FieldSelector::parse(&selector.to_string(), DECLARED).as_ref(), Ok(&selector));
        }
        Err(error) => check_place(fields, &error),
    }
}

fn check_place(text: &str, error: &SelectorError) {
    assert!((1..=text.chars().count() + 1).contains(&error.position), "{text:?}: {error}");
}

/// Paths are printed as they read; a set of them has one notation.
pub fn field_paths(data: &[u8]) {
    let text = std::str::from_utf8(data).unwrap_or_default();
    if let Ok(path) = Step::parse(text) {
        assert_eq!(Step::parse(&Step::print(&path)), Ok(path));
    }
    if let Ok(set) = FieldSet::parse(text.lines()) {
        let lines = set.print();
        let again = FieldSet::parse(lines.iter().map(String::as_str)).expect("what was printed");
        assert_eq!(again.print(), lines);
    }
    if let Some(path) = Path::parse(text) {
        assert_eq!(Path::parse(&path.to_string()), Some(path));
    }
}

/// A name that is good makes a key that names the same object; whatever is stored under a name can be found by it.
pub fn names(data: &[u8]) {
    if let Some(name) = ObjectName::of(data) {
        assert_eq!(&name.key()[..], data);
    }
    let text = std::str::from_utf8(data).unwrap_or_default();
    let _ = (names::check_finalizer(text), names::check_env_name(text), names::check_reason(text));
    let _ = (names::check_label_value(text), names::check_kind(text));
    if names::check_dns_label(text).is_ok() {
        assert_eq!(names::check_dns_subdomain(text), Ok(()));
        assert_eq!(names::check_label_value(text), Ok(()));
    }
    if names::check_dns_subdomain(text).is_ok() {
        let name = ObjectName { kind: "Thing", namespace: "default", name: text };
        assert_eq!(ObjectName::of(&name.key()), Some(name));
        check_settles(Metadata { name: text.to_owned(), ..Metadata::default() });
    }
    if !text.is_empty() && names::check_name_prefix(text).is_ok() {
        check_settles(Metadata { generate_name: text.to_owned(), ..Metadata::default() });
    }
}

fn check_settles(mut metadata: Metadata) {
    let topology = Topology::any();
    let kind = Kind { name: "Thing", namespaced: true, topology: &topology };
    settle_key(&kind, &mut metadata, "abcde").expect("a name that is good");
    assert_eq!(names::check_dns_subdomain(&metadata.name), Ok(()), "{:?}", metadata.name);
}

/// An amount is written as one that reads the same.
pub fn quantities(data: &[u8]) {
    let text = std::str::from_utf8(data).unwrap_or_default();
    for unit in [Unit::Milli, Unit::Byte, Unit::Count] {
        if let Ok(amount) = unit.parse(text) {
            assert!(amount >= 0);
            assert_eq!(unit.parse(&unit.format(amount)), Ok(amount));
        }
    }
    if let Ok(share) = text.parse::<CountOrPercent>() {
        assert_eq!(share.to_string().parse(), Ok(share));
        assert!(share.rounded_down(7) <= share.rounded_up(7));
    }
    if let Ok(amounts) = serde_json::from_slice::<Amounts>(data) {
        let written = serde_json::to_vec(&amounts).expect("amounts are JSON");
        assert_eq!(serde_json::from_slice::<Amounts>(&written).expect("what was written"), amounts);
    }
}
