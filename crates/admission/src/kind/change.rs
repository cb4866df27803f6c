//! Which changes of a definition its existing objects could not survive.
use setpoint_types::FieldProblem;
use setpoint_types::kinds::KindDefinitionSpec;

use crate::path::Path;
use crate::schema::{ListType, Node, Values, inline, read};

/// What may not change from `old` to `new`. Conditions may become stricter: an object is measured by them again where it
/// changes, and only there.
pub fn check_change(old: &KindDefinitionSpec, new: &KindDefinitionSpec, at: &Path) -> Vec<FieldProblem> {
    let mut problems = Vec::new();
    if old.names.kind != new.names.kind {
        let message = format!("may not change: objects are stored under {}", old.names.kind);
        problems.push(FieldProblem::new(at.clone().field("names").field("kind"), message));
    }
    if old.scope != new.scope {
        let message = "may not change: objects are stored by it. Define another kind, and move them";
        problems.push(FieldProblem::new(at.clone().field("scope"), message));
    }
    let place = at.clone().field("schema");
    if let (Some(old), Some(new)) = (places(old, &place), places(new, &place)) {
        compare(&old, &new, place, &mut problems);
    }
    problems
}

fn places(definition: &KindDefinitionSpec, at: &Path) -> Option<Node> {
    Some(read(&inline(&definition.schema, at.clone()).ok()?, at.clone()).0)
}

/// Field ownership is recorded by a list's keys, so a list stays the sort of list it is.
fn compare(old: &Node, new: &Node, at: Path, problems: &mut Vec<FieldProblem>) {
    let both_are_lists = old.items.is_some() && new.items.is_some();
    if both_are_lists && old.list_type != new.list_type {
        let place = match (&old.list_type, &new.list_type) {
            (ListType::Map(_), ListType::Map(_)) => at.clone().field("x-setpoint-list-map-keys"),
            _ => at.clone().field("x-setpoint-list-type"),
        };
        problems.push(FieldProblem::new(place, "may not change: field ownership is recorded by it"));
    }
    for (name, field) in &new.fields {
        if let Some(before) = old.fields.get(name) {
            compare(before, field, at.clone().field("properties").field(name), problems);
        }
    }
    if let (Some(old), Some(new)) = (old.item(), new.item()) {
        compare(old, new, at.clone().field("items"), problems);
    }
    if let (Values::Of(old), Values::Of(new)) = (&old.values, &new.values) {
        compare(old, new, at.field("additionalProperties"), problems);
    }
}
