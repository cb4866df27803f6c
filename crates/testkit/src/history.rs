//! What happened, revision by revision: what invariants are checked against.

use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_apiserver::objects::key::ObjectName;
use setpoint_client::{Parts, Shape};
use setpoint_store::{Change as Stored, ChangeSet, Hold, LeaseName, LedgerKey, Record};
use setpoint_types::object::{Author, Fence, Object};
use setpoint_types::quantity::Amounts;
use setpoint_types::{Epoch, KindType, ObjectKey, Revision};

/// All objects at one revision, with the ledgers and who holds which lease.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub revision: Revision,
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    ledgers: BTreeMap<String, Arc<Book>>,
    reservations: BTreeMap<(String, String), Arc<Amounts>>,
    holds: BTreeMap<(String, String), Held>,
}

/// A ledger: what may be used, and what is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Book {
    pub limits: Amounts,
    pub used: Amounts,
}

/// Who holds a lease, as the state machine knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub holder: String,
    pub epoch: Epoch,
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

/// Every revision there was, oldest first. **Guarantees**: none is left out, also if it is compacted in the world. Objects, ledgers and
/// holds: not keys of the etcd API.
#[derive(Clone, Debug, Default)]
pub struct History {
    entries: Vec<Arc<Entry>>,
}

/// A ledger, and the owner of a reservation in it.
pub type Reserver = (String, String);

/// What one revision changed.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    pub revision: Revision,
    pub changes: Vec<Change>,
    /// By name; none for one that is gone.
    pub ledgers: Vec<(String, Option<Arc<Book>>)>,
    pub reservations: Vec<(Reserver, Option<Arc<Amounts>>)>,
    /// By namespace and name of the lease.
    pub holds: Vec<((String, String), Option<Held>)>,
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

impl State {
    /// The ledgers, by name.
    pub fn ledgers(&self) -> impl Iterator<Item = (&str, &Book)> {
        self.ledgers.iter().map(|(name, book)| (name.as_str(), &**book))
    }

    pub fn ledger(&self, name: &str) -> Option<&Book> {
        self.ledgers.get(name).map(|book| &**book)
    }

    /// What is reserved: in which ledger, by whom, how much.
    pub fn reservations(&self) -> impl Iterator<Item = (&str, &str, &Amounts)> {
        self.reservations
            .iter()
            .map(|((ledger, owner), amounts)| (ledger.as_str(), owner.as_str(), &**amounts))
    }

    /// Who holds a lease.
    pub fn held(&self, namespace: &str, lease: &str) -> Option<&Held> {
        self.holds.get(&(namespace.to_owned(), lease.to_owned()))
    }

    /// The state one revision later.
    pub fn apply(&mut self, entry: &Entry) {
        fn put<K: Ord + Clone, V: Clone>(map: &mut BTreeMap<K, V>, key: &K, value: Option<&V>) {
            match value {
                Some(value) => drop(map.insert(key.clone(), value.clone())),
                None => drop(map.remove(key)),
            }
        }
        self.revision = entry.revision;
        for change in &entry.changes {
            put(&mut self.objects, &change.key, change.after.as_ref());
        }
        for (name, book) in &entry.ledgers {
            put(&mut self.ledgers, name, book.as_ref());
        }
        for (whose, amounts) in &entry.reservations {
            put(&mut self.reservations, whose, amounts.as_ref());
        }
        for (lease, held) in &entry.holds {
            put(&mut self.holds, lease, held.as_ref());
        }
    }
}

impl History {
    /// One revision more. For histories that are made by hand, to see a check fail.
    pub fn push(&mut self, entry: Entry) {
        self.entries.push(Arc::new(entry));
    }

    /// Every revision with the state it made.
    pub fn moments(&self) -> impl Iterator<Item = Moment> {
        let mut state = State::default();
        self.entries.iter().map(move |entry| {
            state.apply(entry);
            Moment { changes: entry.changes.clone(), state: state.clone() }
        })
    }

    /// Every revision with what it changed, for checks that keep what they need themselves.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().map(|entry| &**entry)
    }

    /// All changes of objects, in order.
    pub fn changes(&self) -> impl Iterator<Item = (Revision, &Change)> {
        self.entries().flat_map(|entry| entry.changes.iter().map(|it| (entry.revision, it)))
    }

    /// The state all of it comes to.
    pub fn last(&self) -> State {
        let mut state = State::default();
        self.entries.iter().for_each(|entry| state.apply(entry));
        state
    }
}

/// A history that is read on with the journal, so that nothing of it is decoded twice.
#[derive(Default)]
pub(crate) struct Reader {
    history: History,
    state: State,
}

impl Reader {
    /// How many revisions were read.
    pub fn read(&self) -> usize {
        self.history.entries.len()
    }

    /// Reads the next ones.
    pub fn read_on(&mut self, journal: &[Arc<ChangeSet>]) {
        for set in journal {
            let entry = entry(&self.state, set);
            self.state.apply(&entry);
            self.history.push(entry);
        }
    }

    pub fn history(&self) -> History {
        self.history.clone()
    }

    pub fn state(&self) -> State {
        self.state.clone()
    }
}

fn entry(state: &State, set: &ChangeSet) -> Entry {
    let mut entry = Entry { revision: set.revision, ..Entry::default() };
    for record in &set.records {
        let value = match &record.change {
            Stored::Put { value, .. } => Some(value.clone()),
            Stored::Delete => None,
        };
        if let Some(ledger) = LedgerKey::parse(&record.key) {
            match ledger {
                LedgerKey::Ledger(name) => {
                    let book = value.and_then(|it| setpoint_store::Ledger::decode(it).ok());
                    let book = book.map(|it| Book { limits: amounts(&it.limits), used: amounts(&it.used) });
                    entry.ledgers.push((name, book.map(Arc::new)));
                }
                LedgerKey::Reservation { ledger, owner } => {
                    let taken = value.and_then(|it| setpoint_store::ledger::decode_reservation(it).ok());
                    entry.reservations.push(((ledger, owner), taken.map(|it| Arc::new(amounts(&it)))));
                }
            }
        } else if let Some(lease) = LeaseName::of_hold_key(&record.key) {
            let hold = value.and_then(|it| Hold::decode(it).ok());
            let held = hold.map(|it| Held { holder: it.holder, epoch: Epoch(it.epoch.0) });
            entry.holds.push(((lease.namespace, lease.name), held));
        } else if let Some(change) = change(state, set.revision, record) {
            entry.changes.push(change);
        }
    }
    entry
}

fn amounts(stored: &setpoint_store::Amounts) -> Amounts {
    let signed = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
    stored.iter().map(|(dimension, amount)| (dimension.clone(), signed(*amount))).collect()
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
