//! What happened, revision by revision: what invariants are checked against.

use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_apiserver::objects::key::ObjectName;
use setpoint_client::{Parts, Shape};
use setpoint_store::{Change as Stored, ChangeSet, Record};
use setpoint_types::object::{Author, Fence, Object};
use setpoint_types::{Epoch, KindType, ObjectKey, Revision};

/// All objects at one revision.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub revision: Revision,
    objects: BTreeMap<ObjectKey, Arc<Object>>,
}

/// One object changed.
#[derive(Clone, Debug)]
pub struct Change {
    pub key: ObjectKey,
    pub before: Option<Arc<Object>>,
    pub after: Option<Arc<Object>>,
    /// Who made it.
    pub author: Author,
}

/// One revision: what changed, and what is there after it.
#[derive(Clone, Debug)]
pub struct Moment {
    pub changes: Vec<Change>,
    pub state: State,
}

/// Every revision there was, oldest first. **Guarantees**: none is left out, also if it is compacted in the world. Objects only: not keys
/// of the etcd API.
#[derive(Clone, Debug, Default)]
pub struct History {
    changes: Vec<(Revision, Vec<Change>)>,
}

impl State {
    pub fn get(&self, key: &ObjectKey) -> Option<&Object> {
        self.objects.get(key).map(|object| &**object)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Object> {
        self.objects.values().map(|object| &**object)
    }

    /// The objects of a kind, by namespace and name.
    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Object> {
        self.iter().filter(move |object| object.kind == kind)
    }

    /// How many objects there are of a kind.
    pub fn count(&self, kind: &str) -> usize {
        self.of_kind(kind).count()
    }

    /// The objects of a kind, read. Panics on one that is not of the kind's type: the server does not store such.
    pub fn all<K: KindType + Shape>(&self) -> Vec<K::Object> {
        let read = |object: &Object| {
            K::read(Parts::of_object(object)).unwrap_or_else(|problem| panic!("{}: {problem}", object.key()))
        };
        self.of_kind(K::INFO.name).map(read).collect()
    }

    /// The object of a kind, read.
    pub fn one<K: KindType + Shape>(&self, namespace: &str, name: &str) -> Option<K::Object> {
        let object = self.get(&ObjectKey::new(K::INFO.name, namespace, name))?;
        Some(
            K::read(Parts::of_object(object)).unwrap_or_else(|problem| panic!("{}: {problem}", object.key())),
        )
    }
}

impl History {
    pub(crate) fn of(journal: &[Arc<ChangeSet>]) -> Self {
        let mut state = State::default();
        let mut changes = Vec::with_capacity(journal.len());
        for set in journal {
            let made: Vec<Change> =
                set.records.iter().filter_map(|record| change(&state, set.revision, record)).collect();
            made.iter().for_each(|change| state.take(change));
            changes.push((set.revision, made));
        }
        Self { changes }
    }

    /// Every revision with the state it made.
    pub fn moments(&self) -> impl Iterator<Item = Moment> {
        let mut state = State::default();
        self.changes.iter().map(move |(revision, changes)| {
            state.revision = *revision;
            changes.iter().for_each(|change| state.take(change));
            Moment { changes: changes.clone(), state: state.clone() }
        })
    }

    /// All changes of objects, in order.
    pub fn changes(&self) -> impl Iterator<Item = (Revision, &Change)> {
        self.changes.iter().flat_map(|(revision, changes)| changes.iter().map(|it| (*revision, it)))
    }

    /// The state all of it comes to.
    pub fn last(&self) -> State {
        let mut state = State::default();
        for (revision, changes) in &self.changes {
            state.revision = *revision;
            changes.iter().for_each(|change| state.take(change));
        }
        state
    }
}

impl State {
    fn take(&mut self, change: &Change) {
        match &change.after {
            Some(object) => drop(self.objects.insert(change.key.clone(), object.clone())),
            None => drop(self.objects.remove(&change.key)),
        }
    }
}

/// None for what is not an object's.
fn change(state: &State, revision: Revision, record: &Record) -> Option<Change> {
    let name = ObjectName::of(&record.key)?;
    let key = ObjectKey::new(name.kind, name.namespace, name.name);
    let after = match &record.change {
        Stored::Put { value, .. } => {
            let mut object = Parts::decode(value.clone()).ok()?.into_object().ok()?;
            object.metadata.revision = revision;
            Some(Arc::new(object))
        }
        Stored::Delete => None,
    };
    let author = record.author.as_deref().map(author).unwrap_or_default();
    Some(Change { before: state.objects.get(&key).cloned(), key, after, author })
}

fn author(author: &setpoint_store::Author) -> Author {
    let given = |text: &String| (!text.is_empty()).then(|| text.clone());
    Author {
        principal: author.principal.clone(),
        manager: author.manager.clone(),
        operation: given(&author.operation),
        fence: author.fence.as_ref().map(|fence| Fence {
            namespace: fence.lease.namespace.clone(),
            lease: fence.lease.name.clone(),
            epoch: Epoch(fence.epoch.0),
        }),
        trace: given(&author.trace),
        time: author.time,
    }
}
