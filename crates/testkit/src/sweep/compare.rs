//! Whether two runs came to the same end, but for what has to differ.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use setpoint_types::object::Object;

use super::scenario::Forget;
use crate::history::History;

/// They tell of the way, not of the end.
const OF_THE_WAY: [&str; 3] = ["Lease", "Event", "Decision"];
/// Later than 2001 in milliseconds, and longer than any time that is waited.
const DATE_MS: f64 = 1e12;

/// An end, with what may differ taken out. Several objects are under one name where the server made their names.
pub type End = BTreeMap<String, Vec<Value>>;

pub fn end(history: &History, forgets: &[Forget]) -> End {
    let names = Names::of(history);
    let mut end = End::new();
    for object in history.last().iter().filter(|object| !OF_THE_WAY.contains(&object.kind.as_str())) {
        let mut object = object.clone();
        if forgets.iter().all(|forget| forget(&mut object)) {
            end.entry(names.name_of(&object)).or_default().push(names.plain(&object));
        }
    }
    for objects in end.values_mut() {
        objects.sort_by_key(Value::to_string);
    }
    end
}

/// What is different, a line for each.
pub fn differences(without: &End, with: &End) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, objects) in without {
        match with.get(name) {
            None => lines.push(format!("{name} is missing")),
            Some(found) if found.len() != objects.len() => {
                lines.push(format!("{name} is there {} times, not {}", found.len(), objects.len()));
            }
            Some(found) => {
                let differing = objects.iter().zip(found).filter(|(one, other)| one != other);
                lines.extend(differing.map(|(one, other)| format!("{name} is {other}, not {one}")));
            }
        }
    }
    let more = with.keys().filter(|name| !without.contains_key(*name));
    lines.extend(more.map(|name| format!("{name} is there, too")));
    lines
}

/// What to call things whose ids are drawn anew in every run.
struct Names {
    by_uid: BTreeMap<String, String>,
    /// Completed by the server, by what was asked for.
    generated: BTreeMap<String, String>,
}

impl Names {
    fn of(history: &History) -> Self {
        let mut names = Self { by_uid: BTreeMap::new(), generated: BTreeMap::new() };
        for (_, change) in history.changes() {
            let Some(object) = &change.after else { continue };
            let metadata = &object.metadata;
            if !metadata.generate_name.is_empty() {
                names.generated.insert(metadata.name.clone(), format!("{}*", metadata.generate_name));
            }
            let name = names.name_of(object);
            names.by_uid.insert(metadata.uid.as_str().to_owned(), format!("uid of {name}"));
        }
        names
    }

    fn name<'a>(&'a self, name: &'a str) -> &'a str {
        self.generated.get(name).map_or(name, String::as_str)
    }

    fn name_of(&self, object: &Object) -> String {
        let (metadata, slash) =
            (&object.metadata, if object.metadata.namespace.is_empty() { "" } else { "/" });
        format!("{} {}{slash}{}", object.kind, metadata.namespace, self.name(&metadata.name))
    }

    fn plain(&self, object: &Object) -> Value {
        let metadata = &object.metadata;
        let mut owners: Vec<String> = metadata
            .owners
            .iter()
            .map(|owner| {
                self.by_uid.get(owner.uid.as_str()).cloned().unwrap_or_else(|| "an uid of nobody".into())
            })
            .collect();
        owners.sort();
        let mut plain = json!({
            "labels": metadata.labels,
            "annotations": metadata.annotations,
            "finalizers": metadata.finalizers,
            "owners": owners,
            "deleting": metadata.deleted.is_some(),
            "spec": object.spec,
            "status": object.status,
        });
        self.scrub(&mut plain, metadata.generation.0);
        plain
    }

    /// Takes out ids and dates, wherever they are.
    fn scrub(&self, value: &mut Value, generation: u64) {
        match value {
            Value::String(text) => {
                if let Some(name) =
                    self.by_uid.get(text.as_str()).or_else(|| self.generated.get(text.as_str()))
                {
                    *text = name.clone();
                }
            }
            Value::Number(number) if number.as_f64().is_some_and(|it| it >= DATE_MS) => {
                *value = json!("a date")
            }
            Value::Array(values) => values.iter_mut().for_each(|it| self.scrub(it, generation)),
            Value::Object(fields) => {
                for (name, field) in fields {
                    if name == "observedGeneration" && field.as_u64() == Some(generation) {
                        *field = json!("the newest");
                    }
                    self.scrub(field, generation);
                }
            }
            _ => {}
        }
    }
}
