//! What is large or deep is still right, or is refused; nothing takes the square of its size.

use serde_json::{Value, json};
use setpoint_objects::unknown::FieldValidation;
use setpoint_objects::write::{self, ApplyHow, Context, Draft, Fresh, Incoming, Kind, Outcome, settle_key};
use setpoint_objects::{DEPTH_MAX, Metadata, Object, OwnerReference, Refusal, Subresource, Topology};

fn context(manager: &str) -> Context<'_> {
    Context { manager, time_ms: 1000, validation: FieldValidation::Strict, owners: &|_| None }
}

fn apply<'a>(
    kind: &Kind<'a>,
    stored: Option<&'a Object>,
    manager: &'a str,
    spec: &Value,
    force: bool,
) -> Result<Draft<'a>, Refusal> {
    let metadata = Metadata { name: "thing".to_owned(), ..Metadata::default() };
    let incoming = Incoming::decode("Thing", metadata, spec.to_string().as_bytes(), b"")?;
    let how = ApplyHow { force, subresource: Subresource::Main };
    write::apply(kind, stored, incoming, how, Fresh { uid: "u1", suffix: "" }, &context(manager))
}

fn stored(draft: Result<Draft<'_>, Refusal>) -> Object {
    match draft.and_then(Draft::finish).expect("an object").outcome {
        Outcome::Put(object) => object,
        other => panic!("{other:?}"),
    }
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |value, _| json!({"a": value}))
}

#[test]
fn the_deepest_object_keeps_its_owners() {
    let topology = Topology::any();
    let kind = Kind { name: "Thing", namespaced: true, topology: &topology };
    let object = stored(apply(&kind, None, "alice", &nested(DEPTH_MAX), false));
    assert_eq!(object.metadata.managed_fields[0].fields, [format!(".spec{}", ".a".repeat(DEPTH_MAX))]);
    let again = apply(&kind, Some(&object), "alice", &nested(DEPTH_MAX), false).and_then(Draft::finish);
    assert!(matches!(again.expect("the same").outcome, Outcome::Unchanged(_)));
    let refusal = apply(&kind, Some(&object), "bob", &json!({"a": 1}), false).err().expect("a conflict");
    assert_eq!(refusal.conflicts.len(), 1);
    let refusal = apply(&kind, None, "alice", &nested(DEPTH_MAX + 1), false).err().expect("too deep");
    assert_eq!(refusal.problems[0].path, ".spec");
}

#[test]
fn a_default_cannot_make_an_object_too_deep() {
    let schema = json!({
        "properties": {"spec": {"$ref": "#/$defs/tree"}},
        "$defs": {"tree": {"type": "object", "properties": {
            "a": {"$ref": "#/$defs/tree"}, "leaf": {"type": "object", "default": {"x": {"y": 1}}},
        }}},
    });
    let topology = Topology::of_kind(&schema).expect("a schema");
    let kind = Kind { name: "Thing", namespaced: true, topology: &topology };
    let tree = |depth| (0..depth).fold(json!({}), |value, _| json!({"a": value}));
    let finish = |depth| apply(&kind, None, "alice", &tree(depth), false).and_then(Draft::finish);
    assert!(finish(DEPTH_MAX - 3).is_ok());
    let refusal = finish(DEPTH_MAX - 2).expect_err("too deep");
    assert_eq!(refusal.problems[0].to_string(), ".spec is nested more than 64 deep");
}

#[test]
fn many_conflicts_are_counted_and_some_are_named() {
    let schema = json!({"properties": {"spec": {"type": "object", "properties": {"list": {
        "type": "array", "x-setpoint-list-type": "map", "x-setpoint-list-map-keys": ["id"],
        "items": {"type": "object", "properties": {"id": {"type": "integer"}, "x": {"type": "integer"}}},
    }}}}});
    let topology = Topology::of_kind(&schema).expect("a schema");
    let kind = Kind { name: "Thing", namespaced: true, topology: &topology };
    // Long enough for the square of it to be felt.
    let list = |x: usize| json!({"list": (0..5_000).map(|id| json!({"id": id, "x": x})).collect::<Vec<_>>()});
    let object = stored(apply(&kind, None, "alice", &list(1), false));
    let refusal = apply(&kind, Some(&object), "bob", &list(2), false).err().expect("conflicts");
    assert_eq!(refusal.conflicts.len(), 32);
    assert_eq!(refusal.conflicts[0].value, json!(1));
    assert!(refusal.message.starts_with("5000 fields belong to \"alice\""), "{refusal}");
    let taken = apply(&kind, Some(&object), "bob", &list(2), true).and_then(Draft::finish).expect("by force");
    assert_eq!(taken.taken.len(), 5_000);
}

#[test]
fn finalizers_and_owners_are_bounded() {
    let topology = Topology::any();
    let kind = Kind { name: "Thing", namespaced: true, topology: &topology };
    let mut object = Object::default();
    object.metadata.name = "thing".to_owned();
    settle_key(&kind, &mut object.metadata, "").expect("a name");
    object.metadata.finalizers = (0..100_000).map(|it| format!("a/{it}")).collect();
    object.metadata.owners = vec![OwnerReference::default(); 100_000];
    let fresh = Fresh { uid: "u1", suffix: "" };
    let draft = write::create(&kind, None, object.into(), fresh, &context("alice")).expect("a draft");
    let refusal = draft.finish().expect_err("too many");
    let problems: Vec<String> = refusal.problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [".metadata.finalizers are 100000, at most 64", ".metadata.owners are 100000, at most 64"]
    );
}
