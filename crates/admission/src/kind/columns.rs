//! Columns and selectable fields: both must lead to something that is there.
use setpoint_types::FieldProblem;
use setpoint_types::kinds::{DefinedColumn, DefinedColumnType};

use crate::limits::{COLUMNS_MAX, SELECTABLE_FIELDS_MAX};
use crate::path::{Path, Step};
use crate::schema::{Node, Values};

/// What is wrong with the columns.
pub fn check_columns(columns: &[DefinedColumn], schema: &Node, at: &Path) -> Vec<FieldProblem> {
    let mut problems = Vec::new();
    if columns.len() > COLUMNS_MAX {
        problems.push(FieldProblem::new(at, format!("must have at most {COLUMNS_MAX} elements")));
    }
    for (index, column) in columns.iter().enumerate() {
        let at = at.clone().index(index);
        if column.name.trim().is_empty() {
            problems.push(FieldProblem::new(at.clone().field("name"), "must not be empty"));
        }
        if columns[..index].iter().any(|other| other.name.eq_ignore_ascii_case(&column.name)) {
            problems.push(FieldProblem::new(at.clone().field("name"), "is given twice"));
        }
        if let Err(message) = lead(&column.path, schema).and_then(|found| fits(column.kind, found)) {
            problems.push(FieldProblem::new(at.field("path"), message));
        }
    }
    problems
}

/// What is wrong with the selectable fields.
pub fn check_selectable(fields: &[String], schema: &Node, at: &Path) -> Vec<FieldProblem> {
    let mut problems = Vec::new();
    if fields.len() > SELECTABLE_FIELDS_MAX {
        problems.push(FieldProblem::new(at, format!("must have at most {SELECTABLE_FIELDS_MAX} elements")));
    }
    for (index, field) in fields.iter().enumerate() {
        let at = at.clone().index(index);
        if fields[..index].contains(field) {
            problems.push(FieldProblem::new(&at, "is given twice"));
        }
        let message = match lead(&format!(".{field}"), schema) {
            Err(message) => message,
            Ok(Found::Metadata) => "the metadata's own fields are selectable without being listed".to_owned(),
            Ok(Found::Place(node)) if !node.is_scalar() || node.is_number() => {
                "must lead to a text, a whole number or a truth value".to_owned()
            }
            Ok(Found::Place(_)) => continue,
            Ok(Found::Unknown) => "must lead to a field whose schema is known".to_owned(),
        };
        problems.push(FieldProblem::new(at, message));
    }
    problems
}

enum Found<'n> {
    Metadata,
    Place(&'n Node),
    /// Below a place where anything may be.
    Unknown,
}

/// Follows a path into the schema.
fn lead<'n>(path: &str, schema: &'n Node) -> Result<Found<'n>, String> {
    let Some(path) = Path::parse(path).filter(|path| !path.steps().is_empty()) else {
        return Err("must be the path of a field, such as .spec.replicas".to_owned());
    };
    let mut node = schema;
    for (depth, step) in path.steps().iter().enumerate() {
        let Step::Field(name) = step else { return Err("must not lead into a list".to_owned()) };
        if depth == 0 && name == "metadata" {
            return Ok(Found::Metadata);
        }
        match node.field(name) {
            Some(below) => node = below,
            None if node.preserve_unknown || matches!(node.values, Values::Any) => return Ok(Found::Unknown),
            None => return Err(format!("leads nowhere: there is no field {name}")),
        }
    }
    Ok(Found::Place(node))
}

fn fits(column: DefinedColumnType, found: Found<'_>) -> Result<(), String> {
    let Found::Place(node) = found else { return Ok(()) };
    let (fits, wanted) = match column {
        // Anything can be shown as text.
        DefinedColumnType::String => (true, ""),
        DefinedColumnType::Integer => {
            (node.types.allows("integer") || node.types.allows("number"), "a number")
        }
        DefinedColumnType::Boolean => (node.types.allows("boolean"), "true or false"),
        DefinedColumnType::Time => (node.types.allows("string") || node.types.allows("integer"), "a time"),
    };
    if fits { Ok(()) } else { Err(format!("leads to a field that is not {wanted}")) }
}
