//! Objects in files: what `-f` names, read and checked, with the line and column of everything that is wrong.
//!
//! - [`files`]: where the texts come from
//! - [`located`], [`places`]: values with their places, and places by path
//! - [`check`]: what can be said without the server
//!
//! Not here: what becomes of the objects.

mod check;
mod files;
mod located;
mod places;

use std::io::Read;
use std::sync::Arc;

use serde_json::Value;
use setpoint_types::object::Object;
use setpoint_types::schema::metadata_schema;
use setpoint_types::{FieldProblem, Generation, Metadata, Revision, Timestamp, Uid};

use crate::failure::Failure;
use crate::kinds::{KindEntry, Kinds};
use crate::near;
use check::Complaint;
pub use files::{Files, Text};
use located::{Located, Node};
use places::Places;

/// An object as somebody wrote it down.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The file.
    source: String,
    places: Places,
    pub kind: Arc<KindEntry>,
    /// Without what only the server writes.
    pub object: Object,
}

/// What an object consists of.
const PARTS: [&str; 4] = ["kind", "metadata", "spec", "status"];
/// Objects of one list in a file, which is a mistake beyond them.
const ITEMS_DEPTH_MAX: usize = 4;

/// Everything `-f` names. All that is wrong is said at once, and nothing is returned then.
pub async fn read(files: &Files, input: &mut dyn Read, kinds: &mut Kinds) -> Result<Vec<Manifest>, Failure> {
    if files.is_empty() {
        return Err(Failure::usage("say which files: -f FILE, -f FOLDER, or -f - for standard input"));
    }
    let mut manifests = Vec::new();
    let mut complaints = Vec::new();
    let mut documents = Vec::new();
    for text in files.read(input)? {
        let mut objects = Vec::new();
        parse(&text)?.into_iter().for_each(|document| unpack(document, 0, &mut objects));
        objects.iter().for_each(|document| expect_kind(document, kinds));
        documents.extend(objects.into_iter().map(|document| (text.name.clone(), document)));
    }
    for (source, document) in documents {
        match understand(&source, document, kinds).await? {
            Ok(manifest) => manifests.push(manifest),
            Err(found) => complaints.extend(found.into_iter().map(|it| told(&source, &it))),
        }
    }
    match (complaints.is_empty(), manifests.is_empty()) {
        (false, _) => Err(Failure::usage(complaints.join("\n       "))),
        (true, true) => Err(Failure::usage("there is no object in what -f names")),
        (true, false) => Ok(manifests),
    }
}

/// `web.yaml:4:3: .spec.replcas is no field of this kind; did you mean replicas?`
fn told(source: &str, complaint: &Complaint) -> String {
    let Complaint { place, path, message } = complaint;
    let place = if place.line == 0 { String::new() } else { format!(":{place}") };
    format!("{source}{place}: {path}{}{message}", if path.is_empty() { "" } else { " " })
}

fn parse(text: &Text) -> Result<Vec<Located>, Failure> {
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    match serde_saphyr::from_multiple_with_options::<Located>(&text.text, options) {
        Ok(documents) => Ok(documents),
        Err(error) => {
            // A few things are JSON and no YAML, such as tabs before a brace.
            if let Ok(value) = serde_json::from_str::<Value>(&text.text) {
                return Ok(vec![Located::nowhere(value)]);
            }
            let message = error.without_snippet().to_string();
            let first = message.lines().next().unwrap_or("it cannot be read");
            // The place comes before it, and what a program could set is nothing for its user.
            let first = first.split(" at line ").next().unwrap_or(first);
            let first = match first.strip_prefix("duplicate mapping key: ") {
                Some(key) => {
                    format!("{} is there twice; leave one of them out", key.split(',').next().unwrap_or(key))
                }
                None => format!("this is not YAML: {first}"),
            };
            let place =
                error.location().map(|it| format!(":{}:{}", it.line(), it.column())).unwrap_or_default();
            Err(Failure::usage(format!("{}{place}: {first}", text.name)))
        }
    }
}

/// A list in a file is the objects in it.
fn unpack(document: Located, depth: usize, objects: &mut Vec<Located>) {
    let is_list = document.field("kind").and_then(|entry| entry.value.text()).is_some_and(|it| it == "List");
    let items = document.field("items").map(|entry| &entry.value.node);
    match items {
        Some(Node::List(items)) if is_list && depth < ITEMS_DEPTH_MAX => {
            items.iter().for_each(|item| unpack(item.clone(), depth + 1, objects));
        }
        _ => objects.push(document),
    }
}

/// A definition makes its kind known to what comes with it.
fn expect_kind(document: &Located, kinds: &mut Kinds) {
    let is_definition = document.field("kind").and_then(|it| it.value.text()) == Some("KindDefinition");
    if let Some(spec) = document.field("spec").filter(|_| is_definition) {
        kinds.expect(&spec.value.value());
    }
}

/// A document as an object of its kind, or all that is wrong with it.
async fn understand(
    source: &str,
    document: Located,
    kinds: &mut Kinds,
) -> Result<Result<Manifest, Vec<Complaint>>, Failure> {
    let complaint = |place, path: &str, message: String| Complaint { place, path: path.to_owned(), message };
    if !matches!(document.node, Node::Map(_)) {
        let message = format!(
            "an object is expected here, with kind, metadata and spec; this is {}",
            document.type_name()
        );
        return Ok(Err(vec![complaint(document.place, "", message)]));
    }
    let Some(named) = document.field("kind") else {
        let message = "the object names no kind; add a line like `kind: Workload`".to_owned();
        return Ok(Err(vec![complaint(document.place, "", message)]));
    };
    let Some(name) = named.value.text() else {
        let message = format!("must be a text, is {}", named.value.type_name());
        return Ok(Err(vec![complaint(named.value.place, ".kind", message)]));
    };
    let Some(kind) = kinds.exact(name).await? else {
        let all: Vec<String> = kinds.all().await?.iter().map(|kind| kind.name.clone()).collect();
        let hint = near::hint(name, all.iter().map(String::as_str));
        let message = format!("there is no kind {name:?}{hint}");
        return Ok(Err(vec![complaint(named.value.place, "", message)]));
    };
    let found = complaints(&document, &kind);
    if !found.is_empty() {
        return Ok(Err(found));
    }
    let value = |part: &str| document.field(part).map_or(Value::Null, |entry| entry.value.value());
    match metadata(value("metadata")) {
        Ok(metadata) => Ok(Ok(Manifest {
            source: source.to_owned(),
            places: Places::of(&document),
            object: Object { kind: kind.name.clone(), metadata, spec: value("spec"), status: Value::Null },
            kind,
        })),
        Err(message) => Ok(Err(vec![complaint(document.place, ".metadata", message)])),
    }
}

fn complaints(document: &Located, kind: &KindEntry) -> Vec<Complaint> {
    let mut found = Vec::new();
    if let Node::Map(entries) = &document.node {
        for entry in entries.iter().filter(|entry| !PARTS.contains(&entry.name.as_str())) {
            let advice = match entry.name.as_str() {
                "apiVersion" => "is not needed here: a kind has one version. Remove the line".to_owned(),
                name => match near::nearest(name, PARTS) {
                    Some(near) => format!("is no part of an object; did you mean {near}?"),
                    None => "is no part of an object; there are kind, metadata and spec".to_owned(),
                },
            };
            found.push(Complaint { place: entry.place, path: places::step(&entry.name), message: advice });
        }
    }
    if let Some(entry) = document.field("metadata") {
        check::check(&entry.value, &metadata_schema(), ".metadata", &mut found);
    }
    // Schemas of users' kinds may say more than is understood here: the server checks them.
    if let Some(entry) = document.field("spec").filter(|_| !kind.custom) {
        check::check(&entry.value, &kind.schema["properties"]["spec"], ".spec", &mut found);
    }
    found
}

/// What a file says of an object that the server writes is from an earlier reading, and counts no more.
fn metadata(value: Value) -> Result<Metadata, String> {
    let read: Metadata = match value {
        Value::Null => Metadata::default(),
        value => serde_json::from_value(value).map_err(|error| format!("cannot be read: {error}"))?,
    };
    Ok(Metadata {
        uid: Uid::default(),
        revision: Revision::default(),
        generation: Generation::default(),
        created: Timestamp::default(),
        deleted: None,
        managed_fields: Vec::new(),
        ..read
    })
}

impl Manifest {
    /// `workload/web`
    pub fn label(&self) -> String {
        let metadata = &self.object.metadata;
        let name = if metadata.name.is_empty() { &metadata.generate_name } else { &metadata.name };
        format!("{}/{name}", self.kind.singular)
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    /// A problem the server found, with its place in the file.
    pub fn told(&self, problem: &FieldProblem) -> String {
        let is_unknown = problem.message.contains("is no field");
        let (spot, exact) = self.places.find(&problem.path);
        let place = if is_unknown || !exact { spot.name } else { spot.value };
        let mut message = problem.message.clone();
        if is_unknown && let Some(names) = self.siblings(&problem.path) {
            let (_, written) = problem.path.rsplit_once('.').unwrap_or(("", &problem.path));
            message.push_str(&near::hint(written, names.iter().map(String::as_str)));
        }
        told(&self.source, &Complaint { place, path: problem.path.clone(), message })
    }

    /// The fields that there could be beside the one at a path.
    fn siblings(&self, path: &str) -> Option<Vec<String>> {
        let mut schema = &self.kind.schema;
        let steps: Vec<&str> = path.trim_start_matches('.').split(['.', '[']).collect();
        for step in steps.iter().take(steps.len().saturating_sub(1)) {
            schema = if step.ends_with(']') {
                schema.get("items")?
            } else {
                schema
                    .get("properties")
                    .and_then(|it| it.get(step))
                    .or_else(|| schema.get("additionalProperties"))?
            };
        }
        Some(schema.get("properties")?.as_object()?.keys().cloned().collect())
    }
}
