//! Kinds by any of their names: the built-in ones, known without asking, and those of users, which only the server knows.

use std::sync::Arc;

use serde_json::Value;
use setpoint_client::{Client, Scope, ServedKind};
use setpoint_types::registry;

use crate::failure::Failure;
use crate::near;

/// A kind, for those who only know its name.
#[derive(Debug)]
pub struct KindEntry {
    /// `Workload`
    pub name: String,
    pub plural: String,
    /// `workload`: how objects are called in results.
    pub singular: String,
    pub short_names: Vec<String>,
    pub namespaced: bool,
    pub columns: Vec<ColumnEntry>,
    pub selectable_fields: Vec<String>,
    /// `{"properties":{"spec":…,"status":…}}`
    pub schema: Value,
    pub custom: bool,
}

/// A column after the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnEntry {
    pub name: String,
    pub path: String,
    /// Shown as an age.
    pub is_time: bool,
    pub is_wide: bool,
}

/// Kinds as they are found by words. What is built in needs no server.
pub struct Kinds {
    client: Client,
    /// None until somebody asked for a kind that is not built in.
    served: Option<Vec<Arc<KindEntry>>>,
    /// About to be defined, by a file that was read.
    coming: Vec<Arc<KindEntry>>,
}

impl Kinds {
    pub fn new(client: Client) -> Self {
        Self { client, served: None, coming: Vec::new() }
    }

    /// The kind with this name, singular, plural or short name, in any case.
    pub async fn find(&mut self, word: &str) -> Result<Arc<KindEntry>, Failure> {
        if let Some(kind) = registry::look_up(word) {
            return Ok(Arc::new(KindEntry::of_built_in(kind)));
        }
        let served = self.served().await?;
        let found = served.iter().find(|kind| kind.is_called(word)).cloned();
        found.ok_or_else(|| unknown(word, served))
    }

    /// The kind that a file names, which has to be exactly so.
    pub async fn exact(&mut self, name: &str) -> Result<Option<Arc<KindEntry>>, Failure> {
        if let Some(kind) = registry::kind(name) {
            return Ok(Some(Arc::new(KindEntry::of_built_in(kind))));
        }
        if let Some(kind) = self.coming.iter().find(|kind| kind.name == name) {
            return Ok(Some(kind.clone()));
        }
        Ok(self.served().await?.iter().find(|kind| kind.name == name).cloned())
    }

    /// A definition was read: objects of its kind may come in the same files.
    pub fn expect(&mut self, definition: &Value) {
        let names = &definition["names"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = text(&names["kind"]);
        self.coming.push(Arc::new(KindEntry {
            singular: name.to_lowercase(),
            name,
            plural: text(&names["plural"]),
            short_names: Vec::new(),
            namespaced: definition["scope"] != "Cluster",
            columns: Vec::new(),
            selectable_fields: Vec::new(),
            schema: definition["schema"].clone(),
            custom: true,
        }));
    }

    /// Every kind, as the server has them.
    pub async fn all(&mut self) -> Result<&[Arc<KindEntry>], Failure> {
        self.served().await
    }

    async fn served(&mut self) -> Result<&[Arc<KindEntry>], Failure> {
        if self.served.is_none() {
            let served = self.client.kinds().await?;
            self.served = Some(served.into_iter().map(|kind| Arc::new(KindEntry::of_served(kind))).collect());
        }
        Ok(self.served.as_deref().unwrap_or_default())
    }
}

fn unknown(word: &str, served: &[Arc<KindEntry>]) -> Failure {
    match near::nearest(word, served.iter().flat_map(|kind| kind.words())) {
        Some(near) => Failure::usage(format!("there is no kind {word:?}; did you mean {near}?")),
        None => Failure::usage(format!(
            "there is no kind {word:?}; `setpoint api-resources` lists those there are"
        )),
    }
}

impl KindEntry {
    fn of_built_in(kind: &setpoint_types::Kind) -> Self {
        let info = &kind.info;
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Self {
            name: info.name.to_owned(),
            plural: info.plural.to_owned(),
            singular: info.singular.to_owned(),
            short_names: texts(info.short_names),
            namespaced: info.namespaced,
            columns: info.columns.iter().map(ColumnEntry::of_built_in).collect(),
            selectable_fields: texts(info.selectable_fields),
            schema: kind.schema().clone(),
            custom: false,
        }
    }

    fn of_served(kind: ServedKind) -> Self {
        let column = |it: setpoint_client::ServedColumn| ColumnEntry {
            name: it.name,
            path: it.path,
            is_time: it.kind == "time",
            is_wide: it.priority > 0,
        };
        Self {
            singular: kind.name.to_lowercase(),
            name: kind.name,
            plural: kind.plural,
            short_names: kind.short_names,
            namespaced: kind.namespaced,
            columns: kind.columns.into_iter().map(column).collect(),
            selectable_fields: kind.selectable_fields,
            schema: kind.schema,
            custom: kind.custom,
        }
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        [&self.singular, &self.plural].into_iter().chain(&self.short_names).map(String::as_str)
    }

    fn is_called(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        self.words().any(|it| it == word)
    }

    /// Where its objects are, for somebody in this namespace.
    pub fn scope(&self, namespace: &Scope) -> Scope {
        if self.namespaced { namespace.clone() } else { Scope::Cluster }
    }
}

impl ColumnEntry {
    fn of_built_in(column: &setpoint_types::Column) -> Self {
        Self {
            name: column.name.to_owned(),
            path: column.path.to_owned(),
            is_time: column.kind == setpoint_types::ColumnType::Time,
            is_wide: column.priority > 0,
        }
    }
}
