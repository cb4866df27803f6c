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

/// Lists of every sort, as long as they fit into the largest object; minutes of work for whoever compares each element with
/// each.
#[test]
fn long_lists_take_no_square() {
    let schema = json!({"properties": {"spec": {"type": "object", "properties": {
        "plain": {"type": "array", "items": {"type": "string"}},
        "set": {"type": "array", "x-setpoint-list-type": "set", "items": {"type": "integer"}},
        "map": {
            "type": "array", "x-setpoint-list-type": "map", "x-setpoint-list-map-keys": ["id"],
            "items": {"type": "object", "properties": {"id": {"type": "integer"}, "x": {"type": "integer"}}},
        },
    }}}});
    let topology = Topology::of_kind(&schema).expect("a schema");
    let kind = Kind { name: "Thing", namespaced: true, topology: &topology };
    let of = |name: &str, elements: Vec<Value>| json!({name: elements});
    let create = |spec: Value| {
        let metadata = Metadata { name: "thing".to_owned(), ..Metadata::default() };
        let object = Object { kind: "Thing".to_owned(), metadata, spec, status: Value::Null };
        let fresh = Fresh { uid: "u1", suffix: "" };
        write::create(&kind, None, object.into(), fresh, &context("alice")).and_then(Draft::finish)
    };
    assert!(create(of("plain", vec![json!("x"); 200_000])).is_ok());
    assert!(create(of("set", (0..200_000).map(Value::from).collect())).is_ok());
    let twice = create(of("set", (0..200_000).map(|at| (at / 2).into()).collect())).expect_err("all twice");
    assert_eq!(twice.problems.len(), 32);
    let items = |x: i32| of("map", (0..50_000).map(|id| json!({"id": id, "x": x})).collect());
    let before = create(items(1)).expect("an object").outcome.object().clone();
    let changed = Object { spec: items(2), ..before.clone() };
    let changed =
        write::update(&kind, Some(&before), changed.into(), &context("bob")).and_then(Draft::finish);
    assert_eq!(changed.expect("an update").outcome.object().metadata.managed_fields.len(), 2);
}

/// Items that one manager lets go of and another owns a field of become the other's, all at once.
#[test]
fn many_items_are_inherited_in_one_go() {
    let schema = json!({"properties": {"spec": {"type": "object", "properties": {"list": {
        "type": "array", "x-setpoint-list-type": "map", "x-setpoint-list-map-keys": ["id"],
        "items": {"type": "object", "properties": {
            "id": {"type": "integer"}, "x": {"type": "integer"}, "y": {"type": "integer"},
        }},
    }}}}});
    let topology = Topology::of_kind(&schema).expect("a schema");
    let kind = Kind { name: "Thing", namespaced: true, topology: &topology };
    let list =
        |field: &str| json!({"list": (0..20_000).map(|id| json!({"id": id, field: 1})).collect::<Vec<_>>()});
    let alices = stored(apply(&kind, None, "alice", &list("x"), false));
    // By an update bob owns the new fields, but not the items they are in.
    let mut wanted = alices.clone();
    for item in wanted.spec["list"].as_array_mut().expect("a list") {
        item["y"] = json!(1);
    }
    let updated = write::update(&kind, Some(&alices), wanted.into(), &context("bob"));
    let both = stored(updated);
    let left = stored(apply(&kind, Some(&both), "alice", &json!({"list": []}), false));
    assert_eq!(left.spec, list("y"));
    let bobs = left.metadata.managed_fields.iter().find(|entry| entry.manager == "bob").expect("an entry");
    assert_eq!(bobs.fields.len(), 40_000);
}

#[test]
fn defaults_cannot_blow_up_an_object() {
    let item =
        json!({"type": "object", "properties": {"a": {"type": "string", "default": "x".repeat(100_000)}}});
    let list = json!({"type": "array", "items": item});
    let schema = json!({"properties": {"spec": {"type": "object", "properties": {"l": list}}}});
    let topology = Topology::of_kind(&schema).expect("a schema");
    let kind = Kind { name: "Thing", namespaced: true, topology: &topology };
    let refusal = apply(&kind, None, "alice", &json!({"l": vec![json!({}); 100_000]}), false).err();
    let refusal = refusal.expect("ten gigabytes");
    assert_eq!(refusal.problems[0].path, ".spec.l[10].a");
    assert!(refusal.message.contains("1048576 bytes"), "{refusal}");
}
