//! Metadata as JSON: what patches see, what managers can own, and its schema.
//!
//! Owned are labels, annotations, finalizers and owners. The rest is the server's, or the object's identity.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::fields::push_field;
use crate::object::{Metadata, OwnerReference};
use crate::refusal::FieldProblem;

/// The JSON Schema of metadata, for its shape.
pub fn schema() -> Value {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer"});
    let texts = json!({"type": "object", "additionalProperties": text});
    json!({"type": "object", "properties": {
        "namespace": text, "name": text, "generateName": text, "uid": text,
        "revision": number, "generation": number, "createdMs": number, "deletedMs": number,
        "labels": texts, "annotations": texts,
        "finalizers": {"type": "array", "items": text, "x-setpoint-list-type": "set"},
        "owners": {
            "type": "array", "x-setpoint-list-type": "map", "x-setpoint-list-map-keys": ["uid"],
            // A reference is one statement: half of one means nothing.
            "items": {"type": "object", "x-setpoint-map-type": "atomic", "properties": {
                "kind": text, "name": text, "uid": text,
                "controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"},
            }},
        },
        "managedFields": {"type": "array"},
    }})
}

/// What managers can own, without what is empty.
pub fn ownable(metadata: &Metadata) -> Value {
    let mut out = Map::new();
    let texts = |map: &BTreeMap<String, String>| -> Value {
        map.iter()
            .map(|(key, value)| (key.clone(), Value::from(value.as_str())))
            .collect::<Map<_, _>>()
            .into()
    };
    if !metadata.labels.is_empty() {
        out.insert("labels".to_owned(), texts(&metadata.labels));
    }
    if !metadata.annotations.is_empty() {
        out.insert("annotations".to_owned(), texts(&metadata.annotations));
    }
    if !metadata.finalizers.is_empty() {
        out.insert("finalizers".to_owned(), metadata.finalizers.clone().into());
    }
    if !metadata.owners.is_empty() {
        out.insert("owners".to_owned(), metadata.owners.iter().map(owner).collect());
    }
    out.into()
}

/// Whether what managers can own is the same.
pub(crate) fn is_same_ownable(old: &Metadata, new: &Metadata) -> bool {
    old.labels == new.labels
        && old.annotations == new.annotations
        && old.finalizers == new.finalizers
        && old.owners == new.owners
}

fn owner(owner: &OwnerReference) -> Value {
    let mut out = Map::new();
    out.insert("kind".to_owned(), owner.kind.as_str().into());
    out.insert("name".to_owned(), owner.name.as_str().into());
    out.insert("uid".to_owned(), owner.uid.as_str().into());
    for (name, flag) in [("controller", owner.controller), ("blockOwnerDeletion", owner.block_owner_deletion)]
    {
        if flag {
            out.insert(name.to_owned(), true.into());
        }
    }
    out.into()
}

/// All that a patch sees. Managed fields are left out: patching them means nothing.
pub fn to_json(metadata: &Metadata) -> Value {
    let mut out = ownable(metadata);
    let texts = [
        ("namespace", &metadata.namespace),
        ("name", &metadata.name),
        ("generateName", &metadata.generate_name),
        ("uid", &metadata.uid),
    ];
    for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        out[name] = text.as_str().into();
    }
    out["revision"] = metadata.revision.into();
    out["generation"] = metadata.generation.into();
    out["createdMs"] = metadata.created_ms.into();
    if let Some(deleted_ms) = metadata.deleted_ms {
        out["deletedMs"] = deleted_ms.into();
    }
    out
}

/// Metadata from its JSON, or everything that is wrong with it. Unknown fields and managed fields are passed over.
pub fn from_json(json: &Value) -> Result<Metadata, Vec<FieldProblem>> {
    let mut reader = Reader { problems: Vec::new() };
    if !json.is_object() && !json.is_null() {
        return Err(vec![FieldProblem::new(".metadata", "must be an object")]);
    }
    let at = ".metadata";
    let metadata = Metadata {
        namespace: reader.text(json, at, "namespace"),
        name: reader.text(json, at, "name"),
        generate_name: reader.text(json, at, "generateName"),
        uid: reader.text(json, at, "uid"),
        revision: reader.number(json, at, "revision").unwrap_or_default(),
        generation: reader.number(json, at, "generation").unwrap_or_default(),
        created_ms: reader.number(json, at, "createdMs").unwrap_or_default(),
        deleted_ms: reader.number(json, at, "deletedMs"),
        finalizers: reader.list(json, at, "finalizers", |reader, item, path| match item {
            Value::String(text) => text.clone(),
            _ => reader.wrong(path, "must be a string"),
        }),
        owners: reader.list(json, at, "owners", |reader, item, path| OwnerReference {
            kind: reader.text(item, path, "kind"),
            name: reader.text(item, path, "name"),
            uid: reader.text(item, path, "uid"),
            controller: reader.flag(item, path, "controller"),
            block_owner_deletion: reader.flag(item, path, "blockOwnerDeletion"),
        }),
        labels: reader.texts(json, at, "labels"),
        annotations: reader.texts(json, at, "annotations"),
        managed_fields: Vec::new(),
    };
    if reader.problems.is_empty() { Ok(metadata) } else { Err(reader.problems) }
}

/// Reads fields by type and goes on after a problem.
struct Reader {
    problems: Vec<FieldProblem>,
}

impl Reader {
    fn wrong<T: Default>(&mut self, path: &str, message: &str) -> T {
        self.problems.push(FieldProblem::new(path, message));
        T::default()
    }

    /// Reads a field that is there and not `null`.
    fn read<T: Default>(
        &mut self,
        object: &Value,
        at: &str,
        name: &str,
        must: &str,
        read: impl FnOnce(&mut Self, &Value, &str) -> Option<T>,
    ) -> Option<T> {
        let value = object.get(name).filter(|value| !value.is_null())?;
        let mut path = at.to_owned();
        push_field(&mut path, name);
        Some(read(self, value, &path).unwrap_or_else(|| self.wrong(&path, must)))
    }

    fn text(&mut self, object: &Value, at: &str, name: &str) -> String {
        self.read(object, at, name, "must be a string", |_, value, _| value.as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    fn number(&mut self, object: &Value, at: &str, name: &str) -> Option<u64> {
        self.read(object, at, name, "must be a whole number of at least 0", |_, value, _| value.as_u64())
    }

    fn flag(&mut self, object: &Value, at: &str, name: &str) -> bool {
        self.read(object, at, name, "must be true or false", |_, value, _| value.as_bool())
            .unwrap_or_default()
    }

    fn list<T>(
        &mut self,
        object: &Value,
        at: &str,
        name: &str,
        item: impl Fn(&mut Self, &Value, &str) -> T,
    ) -> Vec<T> {
        self.read(object, at, name, "must be a list", |reader, value, path| {
            let array = value.as_array()?;
            Some(
                array.iter().enumerate().map(|(at, it)| item(reader, it, &format!("{path}[{at}]"))).collect(),
            )
        })
        .unwrap_or_default()
    }

    fn texts(&mut self, object: &Value, at: &str, name: &str) -> BTreeMap<String, String> {
        self.read(object, at, name, "must be an object", |reader, value, path| {
            let mut texts = BTreeMap::new();
            for (key, value) in value.as_object()?.iter().filter(|(_, value)| !value.is_null()) {
                let mut path = path.to_owned();
                push_field(&mut path, key);
                let text = match value {
                    Value::String(text) => text.clone(),
                    _ => reader.wrong(&path, "must be a string"),
                };
                texts.insert(key.clone(), text);
            }
            Some(texts)
        })
        .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let metadata = Metadata {
            namespace: "default".to_owned(),
            name: "web".to_owned(),
            uid: "u1".to_owned(),
            revision: 7,
            deleted_ms: Some(9),
            finalizers: vec!["a/b".to_owned()],
            owners: vec![OwnerReference {
                kind: "Workload".to_owned(),
                name: "web".to_owned(),
                uid: "u0".to_owned(),
                controller: true,
                block_owner_deletion: false,
            }],
            labels: BTreeMap::from([("example.com/tier".to_owned(), "x".to_owned())]),
            ..Metadata::default()
        };
        assert_eq!(from_json(&to_json(&metadata)), Ok(metadata));
    }

    #[test]
    fn every_problem_is_named() {
        let json = json!({
            "name": 1, "revision": -1, "labels": {"a.b": 2}, "finalizers": ["x", 3],
            "owners": [{"kind": {}, "controller": "yes"}], "annotations": [],
        });
        let problems = from_json(&json).expect_err("problems");
        let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                ".metadata.name",
                ".metadata.revision",
                ".metadata.finalizers[1]",
                ".metadata.owners[0].kind",
                ".metadata.owners[0].controller",
                ".metadata.labels.\"a.b\"",
                ".metadata.annotations",
            ]
        );
    }
}
