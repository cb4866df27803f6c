//! Lists of objects, in every form.

use std::cmp::Ordering;
use std::sync::Arc;

use serde_json::{Value, json};
use setpoint_types::object::Object;
use setpoint_types::{Revision, Timestamp};

use super::column::{cell, plain};
use super::table::{Table, Widths};
use super::{Format, Output, document, json as to_json, yaml};
use crate::failure::Failure;
use crate::kinds::KindEntry;

/// An object with its kind.
pub type Shown = (Arc<KindEntry>, Object);

/// How objects are shown, one list or one change after the other.
pub struct Printer {
    output: Output,
    /// With a column for the namespace.
    namespaces: bool,
    colours: bool,
    /// Of the tables before, by kind, for what comes after them.
    widths: Vec<(String, Widths)>,
}

impl Printer {
    pub fn new(output: Output, namespaces: bool, colours: bool) -> Self {
        Self { output, namespaces, colours, widths: Vec::new() }
    }

    pub fn is_table(&self) -> bool {
        matches!(self.output.format, Format::Table | Format::Wide)
    }

    /// A list. `single`: one object was asked for by its name, and is shown by itself.
    pub fn list(
        &mut self,
        mut shown: Vec<Shown>,
        revision: Revision,
        single: bool,
        now: Timestamp,
    ) -> Result<String, Failure> {
        if let Some(template) = &self.output.sort_by {
            let key = |it: &Shown| template.find(&document(&it.1, true)).first().map(|it| (*it).clone());
            shown.sort_by(|a, b| order(key(a), key(b)));
        }
        match &self.output.format {
            Format::Table | Format::Wide => Ok(self.tables(&shown, now, !self.output.no_headers)),
            Format::Name => Ok(names(&shown)),
            Format::Json => Ok(to_json(&self.whole(&shown, revision, single))),
            Format::Yaml => yaml(&self.whole(&shown, revision, single)),
            Format::JsonPath(template) => Ok(template.render(&self.whole(&shown, revision, single))),
        }
    }

    /// One object of a stream of changes.
    pub fn change(&mut self, shown: &Shown, now: Timestamp) -> Result<String, Failure> {
        let managed = self.output.show_managed_fields;
        match &self.output.format {
            Format::Table | Format::Wide => Ok(self.tables(std::slice::from_ref(shown), now, false)),
            Format::Name => Ok(names(std::slice::from_ref(shown))),
            Format::Json => Ok(to_json(&document(&shown.1, managed))),
            Format::Yaml => Ok(format!("---\n{}", yaml(&document(&shown.1, managed))?)),
            Format::JsonPath(template) => Ok(format!("{}\n", template.render(&document(&shown.1, managed)))),
        }
    }

    /// The same with what happened.
    pub fn event(&self, kind: &str, object: &Object) -> Result<String, Failure> {
        let event = json!({"type": kind, "object": document(object, self.output.show_managed_fields)});
        match &self.output.format {
            Format::Yaml => Ok(format!("---\n{}", yaml(&event)?)),
            Format::JsonPath(template) => Ok(format!("{}\n", template.render(&event))),
            _ => Ok(to_json(&event)),
        }
    }

    fn whole(&self, shown: &[Shown], revision: Revision, single: bool) -> Value {
        let managed = self.output.show_managed_fields;
        match shown {
            [(_, only)] if single => document(only, managed),
            _ => json!({
                "kind": "List",
                "metadata": {"revision": revision.get()},
                "items": shown.iter().map(|(_, object)| document(object, managed)).collect::<Vec<_>>(),
            }),
        }
    }

    /// A table for each kind, in the order they come.
    fn tables(&mut self, shown: &[Shown], now: Timestamp, headers: bool) -> String {
        let mut kinds: Vec<&Arc<KindEntry>> = Vec::new();
        for (kind, _) in shown {
            if !kinds.iter().any(|it| it.name == kind.name) {
                kinds.push(kind);
            }
        }
        let prefixed = kinds.len() > 1 || self.widths.len() > 1;
        let mut parts = Vec::new();
        for kind in kinds {
            let of_kind = shown.iter().filter(|it| it.0.name == kind.name).map(|it| &it.1);
            let table = self.table(kind, of_kind, prefixed, now);
            let known = self.widths.iter().position(|(name, _)| *name == kind.name);
            let widths = table.widths(&known.map(|at| self.widths[at].1.clone()).unwrap_or_default());
            parts.push(table.render(&widths, headers, self.colours));
            match known {
                Some(at) => self.widths[at].1 = widths,
                None => self.widths.push((kind.name.clone(), widths)),
            }
        }
        parts.join(if headers { "\n" } else { "" })
    }

    fn table<'o>(
        &self,
        kind: &KindEntry,
        objects: impl Iterator<Item = &'o Object>,
        prefixed: bool,
        now: Timestamp,
    ) -> Table {
        let wide = self.output.format == Format::Wide;
        let columns: Vec<_> = kind.columns.iter().filter(|column| wide || !column.is_wide).collect();
        let namespaces = self.namespaces && kind.namespaced;
        let mut headers: Vec<&str> = Vec::new();
        headers.extend(namespaces.then_some("Namespace"));
        headers.push("Name");
        headers.extend(columns.iter().map(|column| column.name.as_str()));
        // `example.com/tier` is shown below TIER.
        headers.extend(self.output.label_columns.iter().map(|key| key.rsplit('/').next().unwrap_or(key)));
        headers.extend(self.output.show_labels.then_some("Labels"));
        let mut table = Table::new(headers);
        for object in objects {
            let value = document(object, true);
            let metadata = &object.metadata;
            let mut cells: Vec<String> = Vec::new();
            cells.extend(namespaces.then(|| metadata.namespace.clone()));
            let name = &metadata.name;
            cells.push(if prefixed { format!("{}/{name}", kind.singular) } else { name.clone() });
            cells.extend(columns.iter().map(|column| cell(column, &value, now)));
            let label = |key: &String| metadata.labels.get(key).cloned().unwrap_or_default();
            cells.extend(self.output.label_columns.iter().map(label));
            cells.extend(self.output.show_labels.then(|| labels(object)));
            table.row(cells);
        }
        table
    }
}

/// `app=web,tier=front`
pub fn labels(object: &Object) -> String {
    let pairs: Vec<String> =
        object.metadata.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

fn names(shown: &[Shown]) -> String {
    shown.iter().map(|(kind, object)| format!("{}/{}\n", kind.singular, object.metadata.name)).collect()
}

/// Numbers among themselves, texts among themselves; what has no value comes first.
fn order(a: Option<Value>, b: Option<Value>) -> Ordering {
    match (a, b) {
        (Some(Value::Number(a)), Some(Value::Number(b))) => {
            a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal)
        }
        (Some(a), Some(b)) => plain(&a).cmp(&plain(&b)),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}
