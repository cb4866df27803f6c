//! Objects of built-in kinds, from the bytes of their spec and status to what would be stored.

use setpoint_objects::Metadata;
use setpoint_objects::unknown::FieldValidation;
use setpoint_objects::write::{self, Context, Fresh, Incoming, Kind, Outcome, Written};
use setpoint_objects::{Object, Refusal, Topology};
use setpoint_types as types;
use setpoint_types::registry;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::input::Input;

static TOPOLOGIES: LazyLock<BTreeMap<&'static str, Topology>> = LazyLock::new(|| {
    let topology = |kind: &'static types::Kind| Topology::of_kind(kind.schema()).expect("a built-in schema");
    registry::kinds().iter().map(|kind| (kind.info.name, topology(kind))).collect()
});

/// What is created can be written again without a change, has all its defaults, and is the same however strictly it was
/// looked at, if nobody had to look away. Problems name a field.
pub fn typed_objects(data: &[u8]) {
    let mut input = Input::new(data);
    let info = &registry::kinds()[input.roll(registry::kinds().len())];
    let topology = &TOPOLOGIES[info.info.name];
    let kind = Kind { name: info.info.name, namespaced: info.info.namespaced, topology };
    let (spec, status) = (input.part(), input.part());
    let written = |validation, status: &[u8], stored: Option<&Object>| -> Result<Written, Refusal> {
        let metadata = Metadata { name: "a".to_owned(), ..Metadata::default() };
        let incoming = Incoming::decode(kind.name, metadata, spec, status)?;
        let context = Context { manager: "m", time_ms: 1, validation, owners: &|_| None };
        let fresh = Fresh { uid: "u", suffix: "" };
        match stored {
            None => write::create(&kind, None, incoming, fresh, &context)?.finish(),
            Some(_) => write::update_status(&kind, stored, incoming, &context)?.finish(),
        }
    };
    let object = match written(FieldValidation::Strict, b"", None) {
        Ok(Written { outcome: Outcome::Put(object), .. }) => object,
        Ok(other) => panic!("a new object is put, not {other:?}"),
        Err(refusal) => return check_refusal(&refusal),
    };
    for validation in [FieldValidation::Warn, FieldValidation::Ignore] {
        let again = written(validation, b"", None).expect("strictly it was good");
        assert_eq!((again.outcome.object(), again.warnings.len()), (&object, 0));
    }
    let context =
        Context { manager: "n", time_ms: 2, validation: FieldValidation::Strict, owners: &|_| None };
    let update = write::update(&kind, Some(&object), object.clone().into(), &context);
    let update = update.and_then(write::Draft::finish).expect("as it is stored");
    assert_eq!(update.outcome, Outcome::Unchanged(object.clone()));
    judge(info, None, &object);
    match written(FieldValidation::Strict, status, Some(&object)) {
        Ok(written) => judge(info, Some(&object), written.outcome.object()),
        Err(refusal) => check_refusal(&refusal),
    }
}

/// What the kind itself says. An object that it takes is read as its types, and taken again.
fn judge(kind: &types::Kind, before: Option<&Object>, object: &Object) {
    let typed = |object: &Object| {
        let metadata = &object.metadata;
        let mut typed = types::Object::new(&object.kind, &metadata.namespace, &metadata.name);
        (typed.spec, typed.status) = (object.spec.clone(), object.status.clone());
        typed
    };
    let (old, new) = (before.map(typed), typed(object));
    let problems = kind.validate(old.as_ref(), &new);
    for problem in &problems {
        assert!(problem.path.starts_with('.') && !problem.message.is_empty(), "{problem:?}");
    }
    if problems.is_empty() {
        assert_eq!(kind.validate(Some(&new), &new), [], "what is stored can be stored again");
    }
}

fn check_refusal(refusal: &Refusal) {
    assert!(!refusal.problems.is_empty(), "names no field: {refusal:?}");
}
