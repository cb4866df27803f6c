//! The kinds that are served, and what reading needs to know of each.
//!
//! Not here: where kinds come from. Built-in ones are put in at start, users' own when they are defined.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use setpoint_admission::CustomKind;
use setpoint_api::setpoint::v1 as pb;
use setpoint_objects::{Topology, write};
use setpoint_types::registry;
use tokio::sync::watch;

use super::attributes::SelectableFields;
use super::error::Refusal;
use super::key;
use super::reader::Reader;

/// One kind, as it is told to clients and as it is read.
#[derive(Clone, Debug)]
pub struct Kind {
    pub info: pb::KindInfo,
    pub fields: SelectableFields,
    /// What its schema says about merging, unknown fields and defaults.
    pub topology: Arc<Topology>,
    pub rules: Rules,
    /// Its definition is being deleted: no new objects.
    pub deleting: bool,
}

/// Where the rules of a kind come from, beyond the shape its schema gives it.
#[derive(Clone)]
pub enum Rules {
    None,
    BuiltIn(&'static setpoint_types::Kind),
    Custom(Arc<CustomKind>),
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::BuiltIn(_) => "BuiltIn",
            Self::Custom(_) => "Custom",
        })
    }
}

impl Kind {
    pub fn new(info: pb::KindInfo) -> Self {
        let fields = SelectableFields::new(info.selectable_fields.iter().map(String::as_str));
        let schema = serde_json::from_slice(&info.schema).unwrap_or_default();
        // A kind whose schema cannot be read has no shape to keep to; those that are served were checked before.
        let topology = Arc::new(Topology::of_kind(&schema).unwrap_or_else(|_| Topology::any()));
        Self { info, fields, topology, rules: Rules::None, deleting: false }
    }

    /// One of those that come with the server.
    pub fn built_in(kind: &'static setpoint_types::Kind) -> Self {
        let info = &kind.info;
        let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let column = |column: &setpoint_types::Column| pb::Column {
            name: column.name.to_owned(),
            path: column.path.to_owned(),
            r#type: column.kind.name().to_owned(),
            priority: column.priority,
        };
        let served = Self::new(pb::KindInfo {
            kind: info.name.to_owned(),
            plural: info.plural.to_owned(),
            short_names: own(info.short_names),
            namespaced: info.namespaced,
            schema: kind.schema().to_string().into(),
            columns: info.columns.iter().map(column).collect(),
            selectable_fields: own(info.selectable_fields),
            custom: false,
        });
        Self { rules: Rules::BuiltIn(kind), ..served }
    }

    pub fn name(&self) -> &str {
        &self.info.kind
    }

    /// What the rules of writing need to know.
    pub fn for_rules(&self) -> write::Kind<'_> {
        write::Kind { name: self.name(), namespaced: self.info.namespaced, topology: &self.topology }
    }
}

pub struct Catalog {
    kinds: RwLock<BTreeMap<String, Arc<Kind>>>,
    /// Moves whenever a kind comes, goes or changes.
    version: watch::Sender<u64>,
}

impl Catalog {
    pub fn new(kinds: impl IntoIterator<Item = Kind>) -> Self {
        let named = kinds.into_iter().map(|kind| (kind.name().to_owned(), Arc::new(kind)));
        Self { kinds: RwLock::new(named.collect()), version: watch::Sender::new(0) }
    }

    /// The kinds that come with the server.
    pub fn built_in() -> Self {
        Self::new(registry::kinds().iter().map(Kind::built_in))
    }

    /// Adds a kind, or puts it in the place of the one of the same name.
    pub fn put(&self, kind: Kind) {
        self.kinds.write().insert(kind.name().to_owned(), Arc::new(kind));
        self.version.send_modify(|version| *version += 1);
    }

    pub fn remove(&self, kind: &str) {
        if self.kinds.write().remove(kind).is_some() {
            self.version.send_modify(|version| *version += 1);
        }
    }

    /// The kind of a request, as far as this node knows.
    pub fn served(&self, kind: &str) -> Result<Arc<Kind>, Refusal> {
        self.get(kind).ok_or_else(|| {
            let text = if kind.is_empty() {
                "names no kind"
            } else {
                "is not a kind that is served; Kinds lists them"
            };
            Refusal::invalid("kind", text)
        })
    }

    pub fn get(&self, kind: &str) -> Option<Arc<Kind>> {
        self.kinds.read().get(kind).cloned()
    }

    /// In the order of their names.
    pub fn all(&self) -> Vec<Arc<Kind>> {
        self.kinds.read().values().cloned().collect()
    }

    pub fn version(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }
}

impl Reader {
    /// Every kind that is served, or the one that is asked for.
    pub async fn kinds(&self, request: &pb::KindsRequest) -> Result<pb::KindsResponse, Refusal> {
        self.barrier.pass().await?;
        self.rules().await?;
        let kinds = match request.kind.as_str() {
            "" => self.catalog.all(),
            kind => vec![self.catalog.served(kind)?],
        };
        let kinds = kinds.iter().map(|kind| kind.info.clone()).collect();
        Ok(pb::KindsResponse { kinds, revision: self.store.revision().get() })
    }
}

impl Kind {
    /// The namespace an object of this kind is in, if a request names `namespace`.
    pub fn namespace<'n>(&self, namespace: &'n str) -> Result<&'n str, Refusal> {
        match (self.info.namespaced, namespace) {
            (false, "") => Ok(""),
            (false, _) => {
                let text = format!("must be empty: {} belongs to the whole cluster", self.name());
                Err(Refusal::invalid("namespace", text))
            }
            (true, "") => Ok("default"),
            (true, namespace) if key::is_name(namespace) => Ok(namespace),
            (true, _) => Err(Refusal::invalid("namespace", key::NAME_RULE)),
        }
    }
}
