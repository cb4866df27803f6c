//! Kinds and policies that users define: the stored KindDefinition and AdmissionPolicy objects, compiled.
//!
//! Every commit that writes one of them also writes the key [`RULES`](setpoint_store::encoding::RULES), and every commit
//! of objects is guarded by the revision of that key whose rules it was decided by. So a write that was decided by older
//! rules than are in force is refused by the state machine, on whatever node it was decided, and is decided anew.
//!
//! When that key has moved, all definitions are read, and those that changed are compiled anew. What was stored once
//! compiled; if it no longer does, say after a downgrade, the log says so and the rest is served.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use setpoint_admission::kind::TakenNames;
use setpoint_admission::{CustomKind, Policy, PolicySet};
use setpoint_api::setpoint::v1 as pb;
use setpoint_store::command::Range;
use setpoint_store::{KeyValue, PageMax, ReadFailure, Store};
use setpoint_types::kinds::{
    AdmissionPolicySpec, DefinedColumn, DefinedColumnType, KindDefinitionSpec, KindScope,
};
use setpoint_types::{ColumnType, Revision};
use tokio_util::sync::CancellationToken;

use super::catalog::{Catalog, Kind, Rules};
use super::error::Refusal;
use super::reader::{OVERTAKEN_MAX, Reader, blocking};
use super::write::convert;
use super::{feed, key};
use crate::replica::Halt;
use crate::watch::Hub;

pub const KIND_DEFINITION: &str = "KindDefinition";
pub const ADMISSION_POLICY: &str = "AdmissionPolicy";

/// Kinds whose objects others are decided by.
pub fn is_rule(kind: &str) -> bool {
    [KIND_DEFINITION, ADMISSION_POLICY].contains(&kind)
}

/// What is read at a time.
const PAGE: PageMax = PageMax { keys: 64, bytes: 4 << 20 };

pub struct Definitions {
    store: Arc<Store>,
    catalog: Arc<Catalog>,
    /// None before they were first read.
    current: RwLock<Option<Arc<Rulebook>>>,
    /// Also keeps two refreshes from overtaking each other.
    compiled: Mutex<Compiled>,
    /// Whoever needs the newest rules waits here for the one who compiles them, and not each on a thread of its own.
    gate: tokio::sync::Mutex<()>,
}

/// The rules in force at a revision of their key, or at a later one: then the guard on that revision fails.
#[derive(Default)]
pub struct Rulebook {
    pub revision: Revision,
    pub policies: PolicySet,
    kinds: Vec<Arc<Defined>>,
}

impl Rulebook {
    /// The names of all users' kinds but one.
    pub fn taken_names(&self, except: &str) -> TakenNames {
        let mut taken = TakenNames::default();
        for kind in self.kinds.iter().filter(|kind| kind.rules.definition().names.plural != except) {
            taken.add(&kind.rules.definition().names);
        }
        taken
    }
}

/// A user's kind.
struct Defined {
    rules: Arc<CustomKind>,
    /// Its definition is being deleted.
    deleting: bool,
}

#[derive(Default)]
struct Compiled {
    kinds: Known<Defined>,
    policies: Known<Policy>,
}

/// By their keys, each at a revision; none if it cannot be used.
type Known<T> = BTreeMap<Bytes, (Revision, Option<Arc<T>>)>;

impl Definitions {
    pub fn new(store: Arc<Store>, catalog: Arc<Catalog>) -> Self {
        Self {
            store,
            catalog,
            current: RwLock::default(),
            compiled: Mutex::default(),
            gate: Default::default(),
        }
    }

    /// The rules, if they are those of this node's copy.
    pub fn in_force(&self) -> Option<Arc<Rulebook>> {
        self.current.read().clone().filter(|book| book.revision == self.store.rules())
    }

    /// The rules, read and compiled if this node's copy has newer ones. May take long.
    pub fn caught_up(&self) -> Result<Arc<Rulebook>, ReadFailure> {
        let mut compiled = self.compiled.lock();
        match self.in_force() {
            Some(book) => Ok(book),
            None => self.read_all(&mut compiled),
        }
    }

    /// Brings kinds and policies in step with what is stored, whatever their key says: a node of an older version does not
    /// write it.
    pub fn refresh(&self) -> Result<Arc<Rulebook>, ReadFailure> {
        self.read_all(&mut self.compiled.lock())
    }

    fn read_all(&self, compiled: &mut Compiled) -> Result<Arc<Rulebook>, ReadFailure> {
        // Before the definitions: what changes while they are read then counts as not seen.
        let revision = self.store.rules();
        let before = served(compiled);
        self.renew(&mut compiled.kinds, KIND_DEFINITION, compile_kind)?;
        self.renew(&mut compiled.policies, ADMISSION_POLICY, compile_policy)?;
        let after = served(compiled);
        for gone in before.keys().filter(|name| !after.contains_key(*name)) {
            self.catalog.remove(gone);
        }
        for (name, kind) in &after {
            if !before.get(name).is_some_and(|before| Arc::ptr_eq(before, kind)) {
                self.catalog.put(custom(kind));
            }
        }
        // After the catalog: whoever has this book finds kinds that are as new, or newer.
        let policies = compiled.policies.values().filter_map(|(_, policy)| policy.clone());
        let kinds = compiled.kinds.values().filter_map(|(_, kind)| kind.clone()).collect();
        let book = Arc::new(Rulebook { revision, policies: PolicySet::new(policies), kinds });
        *self.current.write() = Some(book.clone());
        Ok(book)
    }

    /// Compiles what is new or has changed, and forgets what is gone.
    fn renew<T>(
        &self,
        known: &mut Known<T>,
        kind: &str,
        compile: fn(&KeyValue) -> Option<T>,
    ) -> Result<(), ReadFailure> {
        for attempt in 1.. {
            match self.read(known, kind, compile) {
                Ok(renewed) => {
                    *known = renewed;
                    break;
                }
                Err(ReadFailure::Overtaken | ReadFailure::Rejected(_)) if attempt < OVERTAKEN_MAX => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    fn read<T>(
        &self,
        before: &Known<T>,
        kind: &str,
        compile: fn(&KeyValue) -> Option<T>,
    ) -> Result<Known<T>, ReadFailure> {
        let mut pages = self.store.open_pages(&Range::latest(key::of_kind(kind)))?;
        let mut renewed = BTreeMap::new();
        loop {
            let page = self.store.next_page(&mut pages, PAGE)?;
            for kv in page.kvs {
                let same = before.get(&kv.key).filter(|(revision, _)| *revision == kv.modified);
                let entry = same.cloned().unwrap_or_else(|| (kv.modified, compile(&kv).map(Arc::new)));
                if same.is_none() && entry.1.is_none() {
                    let key = String::from_utf8_lossy(&kv.key);
                    tracing::warn!(%key, "a definition cannot be used; correct or delete it");
                }
                renewed.insert(kv.key, entry);
            }
            if page.last {
                return Ok(renewed);
            }
        }
    }

    /// Follows the stored definitions until `stop`, or until the node's storage fails.
    pub async fn run(self: Arc<Self>, hub: Arc<Hub>, halt: Halt, stop: CancellationToken) {
        let ranges = [key::of_kind(KIND_DEFINITION), key::of_kind(ADMISSION_POLICY)];
        let store = self.store.clone();
        feed::keep_in_step(&hub, &store, ranges, halt, stop, move || self.refresh().map(drop)).await;
    }
}

impl Reader {
    /// The rules as this node's copy has them now. Compiling is not done by the async workers: it may take longer than an
    /// election.
    pub async fn rules(&self) -> Result<Arc<Rulebook>, Refusal> {
        if let Some(book) = self.definitions.in_force() {
            return Ok(book);
        }
        let _one = self.definitions.gate.lock().await;
        if let Some(book) = self.definitions.in_force() {
            return Ok(book);
        }
        let definitions = self.definitions.clone();
        let caught_up = blocking(move || definitions.caught_up()).await?;
        caught_up.map_err(|failure| self.read_failure(failure))
    }
}

/// The users' kinds by name. Of two that an older version stored under one name, the first in order is served.
fn served(compiled: &Compiled) -> BTreeMap<String, Arc<Defined>> {
    let mut served = BTreeMap::new();
    for kind in compiled.kinds.values().filter_map(|(_, kind)| kind.clone()) {
        served.entry(kind.rules.definition().names.kind.clone()).or_insert(kind);
    }
    served
}

fn compile_kind(kv: &KeyValue) -> Option<Defined> {
    let object = convert::stored(kv)?;
    let spec: KindDefinitionSpec = serde_json::from_value(object.spec).ok()?;
    let rules = CustomKind::compile(&spec, &TakenNames::default()).ok()?;
    Some(Defined { rules: Arc::new(rules), deleting: object.metadata.deleted_ms.is_some() })
}

fn compile_policy(kv: &KeyValue) -> Option<Policy> {
    let object = convert::stored(kv)?;
    let spec: AdmissionPolicySpec = serde_json::from_value(object.spec).ok()?;
    Policy::compile(&object.metadata.name, &spec).ok()
}

/// A user's kind as it is served.
fn custom(kind: &Defined) -> Kind {
    let definition = kind.rules.definition();
    let column = |column: &DefinedColumn| pb::Column {
        name: column.name.clone(),
        path: column.path.clone(),
        r#type: column_type(column.kind).name().to_owned(),
        priority: column.priority,
    };
    let served = Kind::new(pb::KindInfo {
        kind: definition.names.kind.clone(),
        plural: definition.names.plural.clone(),
        short_names: definition.names.short_names.clone(),
        namespaced: definition.scope == KindScope::Namespaced,
        schema: kind.rules.schema().to_string().into(),
        columns: definition.columns.iter().map(column).collect(),
        selectable_fields: definition.selectable_fields.clone(),
        custom: true,
    });
    Kind { rules: Rules::Custom(kind.rules.clone()), deleting: kind.deleting, ..served }
}

fn column_type(defined: DefinedColumnType) -> ColumnType {
    match defined {
        DefinedColumnType::String => ColumnType::String,
        DefinedColumnType::Integer => ColumnType::Integer,
        DefinedColumnType::Boolean => ColumnType::Boolean,
        DefinedColumnType::Time => ColumnType::Time,
    }
}
