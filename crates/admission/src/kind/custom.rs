//! A kind that a user defined, ready to judge objects.

use serde_json::{Map, Value};
use setpoint_types::FieldProblem;
use setpoint_types::kinds::{KindDefinitionSpec, UnknownFields};

use super::columns::{check_columns, check_selectable};
use super::names::{TakenNames, check_names};
use super::rules::{self, Check, Rules};
use crate::cel::Budget;
use crate::limits::{PROBLEMS_MAX, SCHEMA_BYTES_MAX};
use crate::path::{Path, Step};
use crate::problem::Finding;
use crate::schema::{self, Conditions, Node};
use crate::size::written_bytes;

/// Fields of every object, which no kind's schema describes.
pub(super) const ENVELOPE: [&str; 2] = ["kind", "metadata"];

/// A kind. Immutable: a changed definition is compiled anew.
#[derive(Debug)]
pub struct CustomKind {
    definition: KindDefinitionSpec,
    /// Without references.
    schema: Value,
    root: Node,
    conditions: Conditions,
    rules: Rules,
}

impl CustomKind {
    /// Compiles a definition, or says everything that is wrong with it. Paths begin at the definition's `.spec`.
    pub fn compile(definition: &KindDefinitionSpec, taken: &TakenNames) -> Result<Self, Vec<FieldProblem>> {
        let spec = Path::root().field("spec");
        let mut problems = check_names(&definition.names, taken, &spec.clone().field("names"));
        let schema_at = spec.clone().field("schema");
        let read = match read_schema(&definition.schema, &schema_at) {
            Ok(read) => read,
            Err(found) => {
                problems.extend(found);
                return Err(capped(problems));
            }
        };
        problems.extend(check_columns(&definition.columns, &read.root, &spec.clone().field("columns")));
        let selectable = spec.clone().field("selectableFields");
        problems.extend(check_selectable(&definition.selectable_fields, &read.root, &selectable));
        problems.extend(check_defaults(&read.schema, &read.root, &schema_at));
        let closed = definition.unknown_fields == UnknownFields::Prune;
        let compiler = rules::Compiler::new(closed, read.patterns);
        let compiled = compiler.compile(&read.root, &schema_at, &definition.rules, &spec.field("rules"));
        match compiled {
            Ok(rules) if problems.is_empty() => Ok(Self {
                definition: definition.clone(),
                schema: read.schema,
                root: read.root,
                conditions: read.conditions,
                rules,
            }),
            Ok(_) => Err(capped(problems)),
            Err(found) => {
                problems.extend(found);
                Err(capped(problems))
            }
        }
    }

    /// As it was defined.
    pub fn definition(&self) -> &KindDefinitionSpec {
        &self.definition
    }

    /// The schema with its references resolved: what field ownership is decided by, and what clients are shown.
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// What is wrong with `new`; `old` is what it replaces. What was wrong before and is left as it was is tolerated, so
    /// that a stricter schema does not stop those who write other fields.
    pub fn validate(&self, old: Option<&Value>, new: &Value, budget: &mut Budget) -> Vec<FieldProblem> {
        let mut unmet = self.conditions.check(new);
        unmet.retain(|finding| !self.is_untouched(finding, old, new));
        let mut check = Check { budget, unmet: &unmet, found: Vec::new(), at: Path::root() };
        check.place(&self.rules, &self.root, old, new);
        let found = check.found;
        capped(unmet.into_iter().chain(found).map(FieldProblem::from).collect())
    }

    /// The same value was there before, so it is not this write's fault. Elements of lists are found again by their keys; of
    /// a list without keys all must be as they were.
    fn is_untouched(&self, finding: &Finding, old: Option<&Value>, new: &Value) -> bool {
        let Some(mut before) = old else { return false };
        let (mut now, mut node) = (new, Some(&self.root));
        for step in finding.path.steps() {
            if before == now {
                return true;
            }
            let next = match (step, before, now) {
                (Step::Field(name), before, now) => {
                    node = node.and_then(|node| node.field(name));
                    before.get(name).zip(now.get(name))
                }
                (Step::Index(index), Value::Array(others), Value::Array(items)) => {
                    let item = items.get(*index);
                    let other = node.zip(item).and_then(|(node, item)| node.counterparts(others).of(item));
                    node = node.and_then(Node::item);
                    other.zip(item)
                }
                (Step::Index(_), _, _) => None,
            };
            // Only on one side, or on none: then it is what holds it that is judged, and that has changed.
            let Some(next) = next else { return false };
            (before, now) = next;
        }
        before == now
    }
}

struct ReadSchema {
    schema: Value,
    root: Node,
    patterns: usize,
    conditions: Conditions,
}

fn read_schema(written: &Map<String, Value>, at: &Path) -> Result<ReadSchema, Vec<FieldProblem>> {
    let one = |path: &Path, message: String| vec![FieldProblem::new(path, message)];
    if written.iter().map(|(name, value)| name.len() + written_bytes(value)).sum::<usize>() > SCHEMA_BYTES_MAX
    {
        return Err(one(at, format!("is longer than {SCHEMA_BYTES_MAX} bytes")));
    }
    let schema = schema::inline(written, at.clone()).map_err(|problem| vec![problem])?;
    let (root, patterns, mut problems) = schema::read(&schema, at.clone());
    if !root.types.is("object") {
        problems.push(FieldProblem::new(at.clone().field("type"), "must be \"object\""));
    }
    for name in root.fields.keys().filter(|name| !matches!(name.as_str(), "spec" | "status")) {
        let place = at.clone().field("properties").field(name);
        problems.push(FieldProblem::new(place, "an object has spec and status, and nothing beside them"));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let conditions =
        Conditions::new(&schema).map_err(|found| one(&at.clone().join(&found.path), found.message))?;
    Ok(ReadSchema { schema, root, patterns, conditions })
}

/// A default must be good where it is.
fn check_defaults(schema: &Value, node: &Node, at: &Path) -> Vec<FieldProblem> {
    let mut problems = Vec::new();
    if let Some(default) = &node.default {
        let place = at.clone().field("default");
        match Conditions::new(schema) {
            Ok(conditions) => problems.extend(
                conditions
                    .check(default)
                    .into_iter()
                    .map(|finding| FieldProblem::new(place.clone().join(&finding.path), finding.message)),
            ),
            Err(found) => problems.push(FieldProblem::new(&place, found.message)),
        }
        let unknown = schema::find_unknown(node, default, &place);
        problems.extend(unknown.iter().map(|path| FieldProblem::new(path, "is not in the schema")));
    }
    let mut below = |keyword: &str, name: Option<&str>, node: &Node| {
        let (schema, at) = (schema.get(keyword), at.clone().field(keyword));
        let (schema, at) = match name {
            Some(name) => (schema.and_then(|fields| fields.get(name)), at.field(name)),
            None => (schema, at),
        };
        problems.extend(schema.map(|schema| check_defaults(schema, node, &at)).unwrap_or_default());
    };
    for (name, field) in &node.fields {
        below("properties", Some(name), field);
    }
    if let schema::Values::Of(node) = &node.values {
        below("additionalProperties", None, node);
    }
    if let Some(item) = node.item() {
        below("items", None, item);
    }
    problems
}

/// Each once, and not more than anybody reads.
fn capped(mut problems: Vec<FieldProblem>) -> Vec<FieldProblem> {
    let mut seen = std::collections::BTreeSet::new();
    problems.retain(|problem| seen.insert(problem.clone()));
    problems.truncate(PROBLEMS_MAX);
    problems
}
