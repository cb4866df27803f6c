//! How answers are written down.

use std::fmt::Write;

use serde_json::Value;
use setpoint_objects::deletion::Blocker;
use setpoint_objects::write::Written;
use setpoint_objects::{FieldConflict, Object, Operation, Refusal, metadata};

pub fn object(object: &Object) -> String {
    let it = &object.metadata;
    let mut out = format!(
        "{} {}/{} @{} {} g{}",
        object.kind, it.namespace, it.name, it.revision, it.uid, it.generation
    );
    if let Some(deleted_ms) = it.deleted_ms {
        write!(out, " deleted at {}s", deleted_ms / 1000).expect("text");
    }
    out.push('\n');
    let owned = metadata::ownable(it);
    for (name, value) in [("metadata", &owned), ("spec", &object.spec), ("status", &object.status)] {
        if !value.is_null() && (name == "spec" || value.as_object().is_none_or(|value| !value.is_empty())) {
            writeln!(out, "  {name} {}", sorted(value)).expect("text");
        }
    }
    for entry in &it.managed_fields {
        let operation = if entry.operation == Operation::Apply { "applied" } else { "updated" };
        let subresource = entry.subresource.as_str();
        let space = if subresource.is_empty() { "" } else { " " };
        let (at, fields) = (entry.time_ms / 1000, entry.fields.join(" "));
        writeln!(out, "  {} {operation}{space}{subresource} {at}s: {fields}", entry.manager).expect("text");
    }
    out
}

/// The same whether or not maps keep their order.
fn sorted(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let mut fields: Vec<String> = object
                .iter()
                .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), sorted(value)))
                .collect();
            fields.sort();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(array) => format!("[{}]", array.iter().map(sorted).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

pub fn written(line: &str, written: &Written) -> String {
    let mut out = format!("{line}\n");
    for warning in &written.warnings {
        writeln!(out, "  warning: {warning}").expect("text");
    }
    out + &conflicts("took", &written.taken)
}

pub fn refusal(refusal: &Refusal) -> String {
    let at = if refusal.revision == 0 { String::new() } else { format!(" at @{}", refusal.revision) };
    let mut out = format!("{:?}{at}: {}\n", refusal.reason, refusal.message);
    if refusal.problems.len() > 1
        || !refusal.problems.iter().all(|it| refusal.message.contains(&it.to_string()))
    {
        for problem in &refusal.problems {
            writeln!(out, "  {problem}").expect("text");
        }
    }
    out + &conflicts("conflict", &refusal.conflicts)
}

fn conflicts(word: &str, conflicts: &[FieldConflict]) -> String {
    let line =
        |it: &FieldConflict| format!("  {word} {} of {}: {}\n", it.path, it.manager, sorted(&it.value));
    conflicts.iter().map(line).collect()
}

pub fn blockers(blockers: &[Blocker]) -> String {
    let mut out = String::new();
    for blocker in blockers {
        let parts = blocker.dependents.iter().map(|it| format!(" {} {}/{}", it.kind, it.namespace, it.name));
        writeln!(out, "{}:{}", blocker.finalizer, parts.collect::<String>()).expect("text");
    }
    if out.is_empty() { "nothing\n".to_owned() } else { out }
}
