//! `setpoint explain`: what a kind, or a field of it, is for, out of its schema.

use clap::Args;
use serde_json::{Map, Value};
use setpoint_types::schema::metadata_schema;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::kinds::{KindEntry, Kinds};
use crate::near;
use crate::session::{Done, Session};

#[derive(Args)]
pub struct Explain {
    /// KIND, or KIND.FIELD.FIELD: workload.spec.template
    #[arg(value_name = "KIND.FIELD")]
    path: String,
    /// With the fields of fields
    #[arg(short = 'r', long)]
    recursive: bool,
    /// With the fields of fields, so deep
    #[arg(long, value_name = "DEPTH", default_value_t = 16, hide_default_value = true)]
    max_depth: usize,
}

impl Explain {
    pub async fn run(self, session: &mut Session) -> Done {
        let mut steps = self.path.split('.');
        let mut kinds = Kinds::new(session.client()?);
        let kind = kinds.find(steps.next().unwrap_or_default()).await?;
        let root = whole(&kind);
        let mut schema = &root;
        let mut path = kind.singular.clone();
        for step in steps.filter(|step| !step.is_empty()) {
            schema = below(schema, step.split('[').next().unwrap_or(step))
                .ok_or_else(|| missing(schema, &path, step))?;
            path = format!("{path}.{step}");
        }
        let mut text = format!("KIND:     {}\n", kind.name);
        if path != kind.singular {
            text.push_str(&format!("FIELD:    {path} <{}>\n", type_of(schema)));
        }
        text.push_str(&format!("\nDESCRIPTION:\n{}\n", indented(&description(schema, &kind), 4)));
        facts(schema, &mut text);
        if let Some(fields) = fields_of(schema) {
            text.push_str("\nFIELDS:\n");
            let depth = if self.recursive { self.max_depth } else { 0 };
            list(fields, required(schema), 2, depth, self.recursive, &mut text);
        }
        if path == kind.singular && !kind.selectable_fields.is_empty() {
            let names = kind.selectable_fields.join(", ");
            text.push_str(&format!("\nFIELD SELECTORS:\n    metadata.name, metadata.namespace, {names}\n"));
        }
        session.write(&text)?;
        Ok(Exit::Done)
    }
}

/// An object of the kind, with its metadata.
fn whole(kind: &KindEntry) -> Value {
    let mut properties =
        kind.schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    properties.insert("metadata".to_owned(), metadata_schema());
    serde_json::json!({"type": "object", "properties": properties})
}

fn fields_of(schema: &Value) -> Option<&Map<String, Value>> {
    let inner = element(schema);
    inner.get("properties").and_then(Value::as_object).filter(|fields| !fields.is_empty())
}

/// What a list or a map is of.
fn element(schema: &Value) -> &Value {
    let inside =
        schema.get("items").or_else(|| schema.get("additionalProperties").filter(|it| it.is_object()));
    match inside {
        Some(inner) if schema.get("properties").is_none() => element(inner),
        _ => schema,
    }
}

fn below<'s>(schema: &'s Value, name: &str) -> Option<&'s Value> {
    fields_of(schema)?.get(name)
}

fn missing(schema: &Value, path: &str, step: &str) -> Failure {
    match fields_of(schema) {
        Some(fields) => {
            let hint = near::hint(step, fields.keys().map(String::as_str));
            Failure::usage(format!("{path} has no field {step:?}{hint}"))
        }
        None => Failure::usage(format!("{path} is of type {} and has no fields", type_of(schema))),
    }
}

fn required(schema: &Value) -> Vec<&str> {
    let names = element(schema).get("required").and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).collect()
}

fn type_of(schema: &Value) -> String {
    let named = match schema.get("type") {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("|"),
        _ => "any".to_owned(),
    };
    match (
        named.as_str(),
        schema.get("items"),
        schema.get("additionalProperties").filter(|it| it.is_object()),
    ) {
        ("array", Some(items), _) => format!("[]{}", type_of(items)),
        ("object", _, Some(values)) if schema.get("properties").is_none() => {
            format!("map[string]{}", type_of(values))
        }
        _ => named,
    }
}

fn description(schema: &Value, kind: &KindEntry) -> String {
    let said = schema.get("description").and_then(Value::as_str).filter(|text| !text.is_empty());
    let spec = || kind.schema.pointer("/properties/spec/description").and_then(Value::as_str);
    match said {
        Some(text) => text.to_owned(),
        // Of a kind, what its spec says.
        None if schema.pointer("/properties/metadata").is_some() => spec().unwrap_or("<none>").to_owned(),
        None => "<none>".to_owned(),
    }
}

/// Bounds, defaults and the like.
fn facts(schema: &Value, text: &mut String) {
    const FACTS: [(&str, &str); 9] = [
        ("default", "default"),
        ("minimum", "at least"),
        ("maximum", "at most"),
        ("minLength", "shortest"),
        ("maxLength", "longest"),
        ("minItems", "fewest"),
        ("maxItems", "most"),
        ("format", "form"),
        ("x-setpoint-immutable", "cannot be changed"),
    ];
    let found: Vec<String> = FACTS
        .iter()
        .filter_map(|(word, name)| schema.get(word).map(|value| format!("{name}: {value}")))
        .collect();
    if !found.is_empty() {
        text.push_str(&format!("\nRULES:\n{}\n", indented(&found.join("\n"), 4)));
    }
}

fn list(
    fields: &Map<String, Value>,
    required: Vec<&str>,
    indent: usize,
    depth: usize,
    brief: bool,
    text: &mut String,
) {
    for (name, schema) in fields {
        let must = if required.contains(&name.as_str()) { " -required-" } else { "" };
        text.push_str(&format!("{}{name} <{}>{must}\n", " ".repeat(indent), type_of(schema)));
        if !brief && let Some(said) = schema.get("description").and_then(Value::as_str) {
            text.push_str(&format!("{}\n", indented(said.lines().next().unwrap_or_default(), indent + 4)));
        }
        if depth > 0
            && let Some(inner) = fields_of(schema)
        {
            list(inner, self::required(schema), indent + 2, depth - 1, brief, text);
        }
    }
}

fn indented(text: &str, indent: usize) -> String {
    text.lines().map(|line| format!("{}{line}", " ".repeat(indent))).collect::<Vec<_>>().join("\n")
}
