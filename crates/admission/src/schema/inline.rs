//! Replaces references by what they name, so that nobody else meets one.
//!
//! Only definitions of the same schema can be named. One that contains itself is refused: whoever walks such a schema has
//! to look at an object to know when to stop.

use serde_json::{Map, Value};
use setpoint_types::FieldProblem;

use crate::limits::{SCHEMA_DEPTH_MAX, SCHEMA_NODES_MAX};
use crate::path::Path;

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema without `$ref`, `$defs` and `$schema`.
pub fn inline(root: &Map<String, Value>, at: Path) -> Result<Value, FieldProblem> {
    if let Some(draft) = root.get("$schema")
        && draft.as_str().map(|draft| draft.trim_end_matches('#')) != Some(DRAFT)
    {
        return Err(FieldProblem::new(at.field("$schema"), format!("must be {DRAFT:?}")));
    }
    let empty = Map::new();
    let definitions = match root.get("$defs") {
        None => &empty,
        Some(Value::Object(definitions)) => definitions,
        Some(_) => return Err(FieldProblem::new(at.field("$defs"), "must be an object")),
    };
    let mut walk = Walk { definitions, inside: Vec::new(), values: 0 };
    let mut root = root.clone();
    root.retain(|keyword, _| !matches!(keyword.as_str(), "$defs" | "$schema" | "$id"));
    walk.object(&root, at, 0)
}

struct Walk<'s> {
    definitions: &'s Map<String, Value>,
    /// The names being replaced, from the outermost in.
    inside: Vec<&'s str>,
    values: usize,
}

impl<'s> Walk<'s> {
    fn value(&mut self, value: &Value, at: Path, depth: usize) -> Result<Value, FieldProblem> {
        match value {
            Value::Object(fields) => self.object(fields, at, depth),
            Value::Array(items) => {
                let item = |(index, item)| self.value(item, at.clone().index(index), depth + 1);
                Ok(Value::Array(items.iter().enumerate().map(item).collect::<Result<_, _>>()?))
            }
            scalar => Ok(scalar.clone()),
        }
    }

    fn object(&mut self, fields: &Map<String, Value>, at: Path, depth: usize) -> Result<Value, FieldProblem> {
        self.values += 1;
        // Both bounds are loose: keywords nest twice as deep as schemas do, and hold objects that are none.
        if self.values > 4 * SCHEMA_NODES_MAX || depth > 3 * SCHEMA_DEPTH_MAX {
            return Err(FieldProblem::new(
                at,
                "the schema becomes too large when its references are resolved",
            ));
        }
        let Some(Value::String(reference)) = fields.get("$ref") else {
            let mut inlined = Map::new();
            for (name, field) in fields {
                // What these hold is data, even where it looks like a schema.
                let field = match name.as_str() {
                    "default" | "const" | "enum" | "examples" => field.clone(),
                    _ => self.value(field, at.clone().field(name), depth + 1)?,
                };
                inlined.insert(name.clone(), field);
            }
            return Ok(Value::Object(inlined));
        };
        let place = || at.clone().field("$ref");
        let name = reference.strip_prefix("#/$defs/").unwrap_or_default();
        let Some((name, definition)) = self.definitions.get_key_value(name) else {
            return Err(FieldProblem::new(
                place(),
                format!("only \"#/$defs/NAME\" is resolved, not {reference:?}"),
            ));
        };
        if self.inside.contains(&name.as_str()) {
            return Err(FieldProblem::new(place(), format!("{name} contains itself")));
        }
        self.inside.push(name);
        let resolved = self.value(definition, at.clone(), depth + 1);
        self.inside.pop();
        let Value::Object(mut resolved) = resolved? else {
            return Err(FieldProblem::new(place(), format!("{name} must be an object")));
        };
        // What stands beside a reference says more about this place: its description, its default.
        let mut beside = fields.clone();
        beside.remove("$ref");
        if let Value::Object(beside) = self.object(&beside, at, depth + 1)? {
            resolved.extend(beside);
        }
        Ok(Value::Object(resolved))
    }
}
