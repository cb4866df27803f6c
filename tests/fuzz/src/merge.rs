//! Ownership and merging: whatever several managers apply, update and patch, in whatever order.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use setpoint_objects::fields::{FieldSet, Step};
use setpoint_objects::unknown::FieldValidation;
use setpoint_objects::write::{self, ApplyHow, Context, Fresh, Incoming, Kind, Outcome, Written};
use setpoint_objects::{ManagedFields, Metadata, Object, Operation, Reason, Refusal, Subresource, Topology};

use crate::input::Input;

const MANAGERS: &[&str] = &["m0", "m1", "m2"];

/// Lists and maps of every sort, inside of one another.
static TOPOLOGY: LazyLock<Topology> = LazyLock::new(|| {
    let item = json!({"type": "object", "properties": {
        "a": {"type": "string"}, "b": {"type": "string"},
        "hosts": {"type": "array", "x-setpoint-list-type": "set", "items": {"type": "string"}},
        "more": {"type": "array", "x-setpoint-list-type": "map", "x-setpoint-list-map-keys": ["a", "b"],
            "items": {"type": "object", "properties": {
                "a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": "string"}}}},
    }});
    let spec = json!({"type": "object", "properties": {
        "a": {"type": "string"},
        "b": {"type": "integer"},
        "set": {"type": "array", "x-setpoint-list-type": "set", "items": {"type": "string"}},
        "atoms": {"type": "array", "items": {"type": "string"}},
        "atom": {"type": "object", "additionalProperties": {"type": "string"}, "x-setpoint-map-type": "atomic"},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "deep": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": {"type": "string"}}},
        "items": {"type": "array", "x-setpoint-list-type": "map", "x-setpoint-list-map-keys": ["a"], "items": item},
        "free": {"x-setpoint-preserve-unknown": true},
    }});
    Topology::of_kind(&json!({"type": "object", "properties": {"spec": spec, "status": spec}}))
        .expect("a schema")
});

const KIND: &str = "Thing";

/// One object, and the writes an input makes of it.
struct World {
    object: Option<Object>,
    time_ms: u64,
}

struct Apply {
    manager: &'static str,
    config: Value,
    force: bool,
    subresource: Subresource,
}

/// After every write: owned paths lead somewhere, entries are in order. After an apply: see `World::applied`.
pub fn apply_merge(data: &[u8]) {
    let mut input = Input::new(data);
    let mut world = World { object: None, time_ms: 0 };
    for _ in 0..12 {
        if input.is_empty() {
            return;
        }
        let manager = input.one_of(MANAGERS);
        let subresource = if input.roll(4) == 3 { Subresource::Status } else { Subresource::Main };
        match input.roll(4) {
            0 | 1 => {
                let force = input.flag();
                world.apply(&Apply { manager, config: config(&mut input), force, subresource });
            }
            2 => world.update(manager, config(&mut input), subresource),
            _ => world.patch(manager, &config(&mut input), subresource),
        }
        world.check();
    }
}

impl World {
    fn apply(&mut self, apply: &Apply) {
        let before = self.object.clone();
        match self.written(apply) {
            Ok(written) => {
                let taken = written.taken.clone();
                self.keep(written);
                let after = self.object.clone().unwrap_or_default();
                assert!(apply.force || taken.is_empty(), "took {taken:?} without force");
                self.applied(apply, before.as_ref(), &after);
                let again = self.written(apply).expect("what was just applied");
                assert_eq!(again.outcome, Outcome::Unchanged(after), "INVARIANT W3");
            }
            Err(refusal) if refusal.reason == Reason::Conflict => {
                assert!(!apply.force && !refusal.conflicts.is_empty(), "{refusal:?}");
                for conflict in &refusal.conflicts {
                    assert_ne!(conflict.manager, apply.manager, "nobody is in conflict with itself");
                }
            }
            Err(_) => {}
        }
    }

    fn written(&self, apply: &Apply) -> Result<Written, Refusal> {
        let how = ApplyHow { force: apply.force, subresource: apply.subresource };
        let fresh = Fresh { uid: "u", suffix: "" };
        let context = self.context(apply.manager);
        let incoming = incoming(apply.config.clone(), apply.subresource);
        write::apply(&kind(), self.object.as_ref(), incoming, how, fresh, &context)?.finish()
    }

    fn update(&mut self, manager: &str, config: Value, subresource: Subresource) {
        let (kind, context) = (kind(), self.context(manager));
        let incoming = incoming(config, subresource);
        let draft = match (&self.object, subresource) {
            (None, _) => write::create(&kind, None, incoming, Fresh { uid: "u", suffix: "" }, &context),
            (stored, Subresource::Main) => write::update(&kind, stored.as_ref(), incoming, &context),
            (stored, Subresource::Status) => write::update_status(&kind, stored.as_ref(), incoming, &context),
        };
        if let Ok(written) = draft.and_then(write::Draft::finish) {
            self.keep(written);
        }
    }

    fn patch(&mut self, manager: &str, config: &Value, subresource: Subresource) {
        let name = section(subresource);
        let patch = json!({name: config}).to_string();
        let patch = write::Patch {
            kind: setpoint_objects::patch::PatchKind::Merge,
            patch: patch.as_bytes(),
            uid: "",
            revision: 0,
            subresource,
        };
        let context = self.context(manager);
        let key = Metadata { name: "a".to_owned(), ..Metadata::default() };
        let draft = write::patch(&kind(), self.object.as_ref(), &key, &patch, &context);
        if let Ok(written) = draft.and_then(write::Draft::finish) {
            self.keep(written);
        }
    }

    fn context<'a>(&self, manager: &'a str) -> Context<'a> {
        Context { manager, time_ms: self.time_ms, validation: FieldValidation::Ignore, owners: &|_| None }
    }

    fn keep(&mut self, written: Written) {
        self.time_ms += 1;
        if let Outcome::Put(object) = written.outcome {
            self.object = Some(object);
        }
    }

    /// What a manager applied is there and its own, and nothing else is its own. What it had and left out is gone, unless
    /// somebody else has it. Without force, nothing of anybody else's was changed.
    fn applied(&self, apply: &Apply, before: Option<&Object>, after: &Object) {
        let mut applied = incoming(apply.config.clone(), apply.subresource).object;
        let mut config = std::mem::take(part_mut(&mut applied, apply.subresource));
        let node = match apply.subresource {
            Subresource::Main => TOPOLOGY.spec(),
            Subresource::Status => TOPOLOGY.status(),
        };
        setpoint_objects::unknown::prune(&mut config, &TOPOLOGY, node, "");
        setpoint_objects::default::drop_nulls(&mut config, &TOPOLOGY, node);
        let name = section(apply.subresource);
        let config = json!({name: if config.is_null() { json!({}) } else { config }});
        let wanted = FieldSet::of(&TOPOLOGY, &config);
        let document = json!({name: part(after, apply.subresource)});
        let own = |object: &Object| -> Vec<String> {
            let entries = object.metadata.managed_fields.iter();
            let own = |it: &&ManagedFields| it.operation == Operation::Apply && of(it, apply);
            entries.filter(own).flat_map(|it| it.fields.clone()).collect()
        };
        let names = wanted.print();
        assert_eq!(own(after), names, "INVARIANT W2: {config} in {document}");
        for path in wanted.paths() {
            // Of lists and objects only parts are compared, which are paths of their own.
            let value = found(&config, &path).expect("a path of the configuration");
            let there = found(&document, &path).unwrap_or(&Value::Null);
            let scalar = !value.is_array() && !value.is_object();
            assert!(!scalar || there == value, "{} is {there}, not {value}", Step::print(&path));
        }
        let Some(before) = before else { return };
        let others = |object: &Object| -> BTreeSet<String> {
            let entries = object.metadata.managed_fields.iter().filter(|it| !of(it, apply));
            entries.flat_map(|it| it.fields.clone()).collect()
        };
        let old = json!({name: part(before, apply.subresource)});
        let kept: BTreeSet<String> =
            after.metadata.managed_fields.iter().flat_map(|it| it.fields.clone()).collect();
        for line in own(before).iter().filter(|line| !names.contains(line)) {
            let path = Step::parse(line).expect("a path");
            let is_kept =
                kept.iter().any(|it| it.starts_with(line.as_str()) || line.starts_with(it.as_str()));
            assert!(is_kept || found(&document, &path).is_none(), "{line} was left out and is still there");
        }
        if apply.force {
            return;
        }
        for line in others(before).iter().filter(|line| line.starts_with(&format!(".{name}"))) {
            let path = Step::parse(line).expect("a path");
            let (was, is) = (found(&old, &path), found(&document, &path));
            let scalar = was.is_some_and(|it| !it.is_array() && !it.is_object());
            assert!(!scalar || was == is, "{line} was somebody else's {was:?} and is {is:?}");
        }
    }

    fn check(&self) {
        let Some(object) = &self.object else { return };
        let metadata = setpoint_objects::metadata::ownable(&object.metadata);
        let document = json!({"metadata": metadata, "spec": object.spec, "status": object.status});
        let mut entries = BTreeSet::new();
        for entry in &object.metadata.managed_fields {
            assert!(!entry.fields.is_empty() && entry.fields.is_sorted(), "{entry:?}");
            assert!(entries.insert((&entry.manager, entry.operation, entry.subresource)), "{entry:?} twice");
            for line in &entry.fields {
                let path = Step::parse(line).expect("a path");
                assert_eq!(&Step::print(&path), line);
                assert!(found(&document, &path).is_some(), "INVARIANT W1: {line} is not in {document}");
            }
        }
    }
}

fn kind() -> Kind<'static> {
    Kind { name: KIND, namespaced: true, topology: &TOPOLOGY }
}

/// Whether an entry is the applier's, by whatever way of writing.
fn of(entry: &ManagedFields, apply: &Apply) -> bool {
    entry.manager == apply.manager && entry.subresource == apply.subresource
}

fn section(subresource: Subresource) -> &'static str {
    match subresource {
        Subresource::Main => "spec",
        Subresource::Status => "status",
    }
}

fn part(object: &Object, subresource: Subresource) -> &Value {
    match subresource {
        Subresource::Main => &object.spec,
        Subresource::Status => &object.status,
    }
}

fn part_mut(object: &mut Object, subresource: Subresource) -> &mut Value {
    match subresource {
        Subresource::Main => &mut object.spec,
        Subresource::Status => &mut object.status,
    }
}

fn incoming(config: Value, subresource: Subresource) -> Incoming {
    let metadata = Metadata { name: "a".to_owned(), ..Metadata::default() };
    let mut object = Object { kind: KIND.to_owned(), metadata, ..Object::default() };
    *part_mut(&mut object, subresource) = config;
    object.into()
}

/// Mostly of the schema's shape, sometimes anything.
fn config(input: &mut Input<'_>) -> Value {
    let text = |input: &mut Input<'_>| json!(input.one_of(&["x", "y", "z"]));
    let texts = |input: &mut Input<'_>| -> Value { (0..input.roll(4)).map(|_| text(input)).collect() };
    let map = |input: &mut Input<'_>| -> Value {
        (0..input.roll(4)).map(|_| (input.name(), text(input))).collect::<Map<_, _>>().into()
    };
    let mut fields = Map::new();
    for _ in 0..input.roll(6) {
        let (name, value) = match input.roll(11) {
            0 => ("a", text(input)),
            1 => ("b", json!(input.roll(3))),
            2 => ("set", texts(input)),
            3 => ("atoms", texts(input)),
            4 => ("atom", map(input)),
            5 => ("map", map(input)),
            6 => {
                ("deep", (0..input.roll(3)).map(|_| (input.name(), map(input))).collect::<Map<_, _>>().into())
            }
            7 | 8 => ("items", (0..input.roll(4)).map(|_| item(input)).collect()),
            9 => ("free", input.value(3)),
            _ => (input.one_of(&["a", "set", "atom", "map", "deep", "items"]), input.value(4)),
        };
        fields.insert(name.to_owned(), value);
    }
    fields.into()
}

/// Of the list that is a map.
fn item(input: &mut Input<'_>) -> Value {
    let text = |input: &mut Input<'_>| json!(input.one_of(&["x", "y", "z"]));
    let mut item = Map::from_iter([("a".to_owned(), text(input))]);
    if input.flag() {
        item.insert("b".to_owned(), text(input));
    }
    if input.flag() {
        item.insert("hosts".to_owned(), (0..input.roll(3)).map(|_| text(input)).collect());
    }
    if input.flag() {
        let inner = |input: &mut Input<'_>| json!({"a": text(input), "b": input.roll(2), "c": input.one_of(&[json!("x"), Value::Null].each_ref())});
        item.insert("more".to_owned(), (0..input.roll(3)).map(|_| inner(input)).collect());
    }
    item.into()
}

/// What a path leads to, by the notation alone.
fn found<'d>(document: &'d Value, path: &[Step]) -> Option<&'d Value> {
    path.iter().try_fold(document, |value, step| match step {
        Step::Field(name) => value.get(name),
        Step::Member(member) => value.as_array()?.iter().find(|item| member.is(item)),
        Step::Item(keys) => value.as_array()?.iter().find(|item| {
            keys.iter().all(|(key, scalar)| item.get(key).is_some_and(|value| scalar.is(value)))
        }),
    })
}
