//! One object, written by many; and what must hold of it.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use setpoint_objects::fields::{FieldSet, Step as PathStep};
use setpoint_objects::managed::UPDATE_MANAGERS_MAX;
use setpoint_objects::patch::PatchKind;
use setpoint_objects::unknown::FieldValidation;
use setpoint_objects::write::{self, ApplyHow, Context, Fresh, Incoming, Kind, Outcome, Patch, Written};
use setpoint_objects::{ManagedFields, Metadata, Object, Operation, Refusal, Subresource, Topology};

use super::generate::{Config, Step, schema};

#[derive(Clone)]
pub struct World {
    topology: Topology,
    pub object: Option<Object>,
    pub accepted: bool,
    time_ms: u64,
}

impl Default for World {
    fn default() -> Self {
        let topology = Topology::of_kind(&schema()).expect("a schema");
        Self { topology, object: None, accepted: false, time_ms: 0 }
    }
}

impl World {
    pub fn perform(&mut self, step: &Step) -> Result<Written, Refusal> {
        self.time_ms += 1000;
        let written = self.written(step);
        self.accepted = written.is_ok();
        if let Ok(Written { outcome: Outcome::Put(object), .. }) = &written {
            let generation = self
                .object
                .as_ref()
                .map_or(1, |before| before.metadata.generation + u64::from(before.spec != object.spec));
            assert_eq!(object.metadata.generation, generation, "INVARIANT W4");
            let mut object = object.clone();
            object.metadata.revision = self.time_ms;
            self.object = Some(object);
        }
        written
    }

    fn written(&self, step: &Step) -> Result<Written, Refusal> {
        let kind = Kind { name: "Thing", namespaced: true, topology: &self.topology };
        let context = |manager| Context {
            manager,
            time_ms: self.time_ms,
            validation: FieldValidation::Strict,
            owners: &|_| None,
        };
        let (stored, fresh) = (self.object.as_ref(), Fresh { uid: "u1", suffix: "" });
        let incoming = |config: &Config| {
            let metadata = Metadata { name: "thing".to_owned(), ..Metadata::default() };
            let (spec, status) = (config.0.clone(), config.0.clone());
            Incoming::from(Object { kind: "Thing".to_owned(), metadata, spec, status })
        };
        let draft = match step {
            Step::Apply { manager, config, force, status } => {
                let subresource = if *status { Subresource::Status } else { Subresource::Main };
                let how = ApplyHow { force: *force, subresource };
                write::apply(&kind, stored, incoming(config), how, fresh, &context(manager))
            }
            Step::Update { manager, config, status: true } => {
                write::update_status(&kind, stored, incoming(config), &context(manager))
            }
            Step::Update { manager, config, .. } if stored.is_none() => {
                write::create(&kind, None, incoming(config), fresh, &context(manager))
            }
            Step::Update { manager, config, .. } => {
                write::update(&kind, stored, incoming(config), &context(manager))
            }
            Step::Merge { manager, patch } => {
                let patch = Patch {
                    kind: PatchKind::Merge,
                    patch: &serde_json::to_vec(patch).expect("JSON"),
                    uid: "",
                    revision: 0,
                    subresource: Subresource::Main,
                };
                write::patch(&kind, stored, &Metadata::default(), &patch, &context(manager))
            }
        };
        draft?.finish()
    }

    fn document(&self) -> Value {
        let Some(object) = &self.object else { return json!({}) };
        json!({"spec": object.spec, "status": object.status})
    }

    fn managed(&self) -> &[ManagedFields] {
        self.object.as_ref().map_or(&[], |object| &object.metadata.managed_fields)
    }

    /// All that must hold between any two writes.
    pub fn check(&self) {
        let document = self.document();
        let mut owned = FieldSet::new();
        let mut entries = BTreeSet::new();
        for entry in self.managed() {
            assert!(!entry.fields.is_empty(), "{} owns nothing and is listed", entry.manager);
            assert!(entry.fields.is_sorted(), "{:?}", entry.fields);
            assert!(entries.insert((&entry.manager, entry.operation, entry.subresource)), "{entry:?} twice");
            for line in &entry.fields {
                let path = PathStep::parse(line).unwrap_or_else(|error| panic!("{error}"));
                assert!(
                    found(&document, &path),
                    "INVARIANT W1: {line} of {} is not in {document}",
                    entry.manager
                );
                let section = if entry.subresource == Subresource::Status { ".status" } else { ".spec" };
                assert!(line.starts_with(section), "{line} is in the wrong entry: {entry:?}");
                owned.insert(&path);
            }
        }
        let updates = self.managed().iter().filter(|entry| entry.operation == Operation::Update).count();
        assert!(updates <= UPDATE_MANAGERS_MAX, "{updates} update managers");
        for path in FieldSet::of(&self.topology, &document).paths() {
            let default = path.last() == Some(&PathStep::field("paused"));
            let printed = PathStep::print(&path);
            assert!(default || owned.at(&path).is_some(), "INVARIANT W2: {printed} is nobody's");
        }
    }

    /// What was just applied is the manager's.
    pub fn check_owns_all(&self, manager: &str, config: &Config) {
        let entry = self.managed().iter().find(|entry| {
            entry.manager == manager
                && entry.operation == Operation::Apply
                && entry.subresource == Subresource::Main
        });
        let owned: BTreeSet<&String> = entry.iter().flat_map(|entry| &entry.fields).collect();
        let applied = FieldSet::of(&self.topology, &json!({"spec": config.0})).print();
        assert_eq!(owned, applied.iter().collect(), "INVARIANT W2: {manager}");
    }

    /// The object and its owners, but for the order of items and for times.
    pub fn without_order_and_time(&self) -> (Value, Vec<ManagedFields>) {
        let mut document = self.document();
        for list in ["zones", "ports"] {
            let sort = |list: &mut Vec<Value>| list.sort_by_key(ToString::to_string);
            if let Some(ports) = document["spec"].get_mut(list).and_then(Value::as_array_mut) {
                for port in ports.iter_mut() {
                    port.get_mut("hosts").and_then(Value::as_array_mut).into_iter().for_each(sort);
                }
                sort(ports);
            }
        }
        let timeless = |entry: &ManagedFields| ManagedFields { time_ms: 0, ..entry.clone() };
        (document, self.managed().iter().map(timeless).collect())
    }
}

/// Whether a path leads to something, by the notation alone.
fn found(document: &Value, path: &[PathStep]) -> bool {
    let end = path.iter().try_fold(document, |value, step| match step {
        PathStep::Field(name) => value.get(name),
        PathStep::Member(member) => value.as_array()?.iter().find(|item| member.is(item)),
        PathStep::Item(keys) => value.as_array()?.iter().find(|item| {
            keys.iter().all(|(key, scalar)| item.get(key).is_some_and(|value| scalar.is(value)))
        }),
    });
    end.is_some()
}
