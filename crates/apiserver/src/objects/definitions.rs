//! Kinds and policies that users define: the stored KindDefinition and AdmissionPolicy objects, compiled.
//!
//! Whenever one of them changes, all are read, and those that changed are compiled anew. A node that makes such a write
//! has its effect before it answers; the others within moments. What was stored once compiled; if it no longer does, say
//! after a downgrade, the log says so and the rest is served.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use setpoint_admission::kind::TakenNames;
use setpoint_admission::{CustomKind, Policy, PolicySet};
use setpoint_api::setpoint::v1 as pb;
use setpoint_store::command::Range;
use setpoint_store::{KeyValue, ReadFailure, Store};
use setpoint_types::kinds::{
    AdmissionPolicySpec, DefinedColumn, DefinedColumnType, KindDefinitionSpec, KindScope,
};
use setpoint_types::{ColumnType, Revision};
use tokio_util::sync::CancellationToken;

use super::catalog::{Catalog, Kind, Rules};
use super::write::convert;
use super::{feed, key};
use crate::replica::Halt;
use crate::watch::Hub;

pub const KIND_DEFINITION: &str = "KindDefinition";
pub const ADMISSION_POLICY: &str = "AdmissionPolicy";

/// Definitions of kinds, and policies, that are served.
pub const DEFINITIONS_MAX: usize = 1_000;

pub struct Definitions {
    store: Arc<Store>,
    catalog: Arc<Catalog>,
    policies: RwLock<Arc<PolicySet>>,
    /// Also keeps two refreshes from overtaking each other.
    compiled: Mutex<Compiled>,
    /// What was stored when this node started was compiled once, with everything it had missed before.
    caught_up: AtomicBool,
}

#[derive(Default)]
struct Compiled {
    kinds: BTreeMap<Bytes, (Revision, Option<Arc<CustomKind>>)>,
    policies: BTreeMap<Bytes, (Revision, Option<Arc<Policy>>)>,
}

impl Definitions {
    pub fn new(store: Arc<Store>, catalog: Arc<Catalog>) -> Self {
        let (policies, compiled) = (RwLock::default(), Mutex::default());
        Self { store, catalog, policies, compiled, caught_up: AtomicBool::new(false) }
    }

    /// True once a refresh has followed a barrier.
    pub fn is_caught_up(&self) -> bool {
        self.caught_up.load(Ordering::Acquire)
    }

    pub fn note_caught_up(&self) {
        self.caught_up.store(true, Ordering::Release);
    }

    /// The policies as they are now.
    pub fn policies(&self) -> Arc<PolicySet> {
        self.policies.read().clone()
    }

    /// The names of all users' kinds but one.
    pub fn taken_names(&self, except: &str) -> TakenNames {
        let mut taken = TakenNames::default();
        let compiled = self.compiled.lock();
        let kinds = compiled.kinds.values().filter_map(|(_, kind)| kind.as_deref());
        for kind in kinds.filter(|kind| kind.definition().names.plural != except) {
            taken.add(&kind.definition().names);
        }
        taken
    }

    /// Brings kinds and policies in step with what is stored.
    pub fn refresh(&self) -> Result<(), ReadFailure> {
        let mut compiled = self.compiled.lock();
        let stored = self.read(KIND_DEFINITION)?;
        let before = served(&compiled);
        renew(&mut compiled.kinds, stored, compile_kind);
        let after = served(&compiled);
        for gone in before.keys().filter(|name| !after.contains_key(*name)) {
            self.catalog.remove(gone);
        }
        for (name, kind) in after {
            if !before.get(&name).is_some_and(|before| Arc::ptr_eq(before, &kind)) {
                self.catalog.put(custom(kind));
            }
        }
        let stored = self.read(ADMISSION_POLICY)?;
        renew(&mut compiled.policies, stored, compile_policy);
        let policies = compiled.policies.values().filter_map(|(_, policy)| policy.clone());
        *self.policies.write() = Arc::new(PolicySet::new(policies));
        Ok(())
    }

    fn read(&self, kind: &str) -> Result<Vec<KeyValue>, ReadFailure> {
        let read = Range { limit: DEFINITIONS_MAX as i64, ..Range::latest(key::of_kind(kind)) };
        Ok(self.store.range(&read)?.kvs)
    }

    /// Follows the stored definitions until `stop`, or until the node's storage fails.
    pub async fn run(self: Arc<Self>, hub: Arc<Hub>, halt: Halt, stop: CancellationToken) {
        let ranges = [key::of_kind(KIND_DEFINITION), key::of_kind(ADMISSION_POLICY)];
        let store = self.store.clone();
        feed::keep_in_step(&hub, &store, ranges, halt, stop, move || self.refresh()).await;
    }
}

/// True if a stored definition is of this kind, whether or not it is compiled.
pub fn is_defined(store: &Store, kind: &str) -> Result<bool, ReadFailure> {
    let read = Range { limit: DEFINITIONS_MAX as i64, ..Range::latest(key::of_kind(KIND_DEFINITION)) };
    let defines = |kv: &KeyValue| convert::stored(kv).is_some_and(|it| it.spec["names"]["kind"] == kind);
    Ok(store.range(&read)?.kvs.iter().any(defines))
}

/// The users' kinds by name. Of two that were stored under one name at the same moment, the first in order is served.
fn served(compiled: &Compiled) -> BTreeMap<String, Arc<CustomKind>> {
    let mut served = BTreeMap::new();
    for kind in compiled.kinds.values().filter_map(|(_, kind)| kind.clone()) {
        served.entry(kind.definition().names.kind.clone()).or_insert(kind);
    }
    served
}

/// Compiles what is new or has changed, and forgets what is gone.
fn renew<T>(
    known: &mut BTreeMap<Bytes, (Revision, Option<Arc<T>>)>,
    stored: Vec<KeyValue>,
    compile: impl Fn(&KeyValue) -> Option<T>,
) {
    let mut before = std::mem::take(known);
    for kv in stored {
        let same = before.remove(&kv.key).filter(|(revision, _)| *revision == kv.modified);
        let entry = same.unwrap_or_else(|| (kv.modified, compile(&kv).map(Arc::new)));
        if entry.1.is_none() {
            tracing::warn!(key = %String::from_utf8_lossy(&kv.key), "a definition cannot be used; correct or delete it");
        }
        known.insert(kv.key, entry);
    }
}

fn compile_kind(kv: &KeyValue) -> Option<CustomKind> {
    let object = convert::stored(kv)?;
    let spec: KindDefinitionSpec = serde_json::from_value(object.spec).ok()?;
    CustomKind::compile(&spec, &TakenNames::default()).ok()
}

fn compile_policy(kv: &KeyValue) -> Option<Policy> {
    let object = convert::stored(kv)?;
    let spec: AdmissionPolicySpec = serde_json::from_value(object.spec).ok()?;
    Policy::compile(&object.metadata.name, &spec).ok()
}

/// A user's kind as it is served.
fn custom(kind: Arc<CustomKind>) -> Kind {
    let definition = kind.definition();
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
        schema: kind.schema().to_string().into(),
        columns: definition.columns.iter().map(column).collect(),
        selectable_fields: definition.selectable_fields.clone(),
        custom: true,
    });
    Kind { rules: Rules::Custom(kind), ..served }
}

fn column_type(defined: DefinedColumnType) -> ColumnType {
    match defined {
        DefinedColumnType::String => ColumnType::String,
        DefinedColumnType::Integer => ColumnType::Integer,
        DefinedColumnType::Boolean => ColumnType::Boolean,
        DefinedColumnType::Time => ColumnType::Time,
    }
}
