//! Random paths, and the laws of their sets.

use std::collections::BTreeSet;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::Value;
use setpoint_objects::fields::{FieldSet, Scalar, Step};

type Paths = Vec<Vec<Step>>;

fn scalar() -> impl Strategy<Value = Scalar> {
    let value = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,4}".prop_map(Value::from),
        prop_oneof![Just("a"), Just("]"), Just("=\"")].prop_map(Value::from),
    ];
    value.prop_filter_map("neither null nor infinite", |value| Scalar::of(&value))
}

fn step() -> impl Strategy<Value = Step> {
    let name = prop_oneof![4 => "[a-c]", 1 => "[a-zA-Z0-9_-]{1,4}", 1 => "\\PC{0,4}", 1 => any::<String>()];
    prop_oneof![
        4 => name.clone().prop_map(Step::Field),
        1 => btree_map(name, scalar(), 1..3).prop_map(|keys| Step::item(keys.into_iter().collect())),
        1 => scalar().prop_map(Step::Member),
    ]
}

pub fn paths() -> impl Strategy<Value = Paths> {
    vec(vec(step(), 1..5), 0..8)
}

fn set(paths: &Paths) -> FieldSet {
    let mut set = FieldSet::new();
    paths.iter().for_each(|path| set.insert(path));
    set
}

pub fn check_round_trip(paths: &Paths) {
    let set = set(paths);
    let printed = set.print();
    assert!(printed.is_sorted());
    assert_eq!(printed.len(), set.len());
    let read =
        FieldSet::parse(printed.iter().rev().map(String::as_str)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(read, set);
    assert_eq!(read.print(), printed);
}

pub fn check_laws(left: &Paths, right: &Paths) {
    let members = |set: &FieldSet| set.paths().into_iter().collect::<BTreeSet<_>>();
    let (one, two) = (set(left), set(right));
    let (in_one, in_two) = (members(&one), members(&two));
    assert_eq!(members(&one.clone().union(&two)), in_one.union(&in_two).cloned().collect());
    assert_eq!(members(&one.intersection(&two)), in_one.intersection(&in_two).cloned().collect());
    assert_eq!(members(&one.difference(&two)), in_one.difference(&in_two).cloned().collect());
    let below = |path: &Vec<Step>| in_two.iter().any(|root| path.starts_with(root));
    let (with, without): (BTreeSet<_>, BTreeSet<_>) = in_one.iter().cloned().partition(below);
    assert_eq!(members(&one.only_below(&two)), with);
    assert_eq!(members(&one.without_below(&two)), without);
    let free = |path: &&Vec<Step>| !in_two.iter().any(|other| other.starts_with(path));
    assert_eq!(members(&one.free_of(&two)), in_one.iter().filter(free).cloned().collect());
}
