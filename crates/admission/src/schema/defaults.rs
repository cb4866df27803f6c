//! Fills in what a user left out and the schema has a default for.

use serde_json::Value;
use setpoint_types::FieldProblem;

use super::node::Node;
use crate::limits::DEFAULTED_BYTES_MAX;
use crate::path::{Path, Step};
use crate::size::written_bytes;

/// Fills in defaults. A field that is null where null is not allowed counts as left out. Defaults of a field's parts
/// apply once the field is there: an object that is left out and has no default of its own stays out.
pub fn default_fields(node: &Node, value: &mut Value) -> Result<(), FieldProblem> {
    let mut walk = Walk { at: Path::root(), room: DEFAULTED_BYTES_MAX };
    walk.place(node, value)
}

struct Walk {
    at: Path,
    room: usize,
}

impl Walk {
    fn place(&mut self, node: &Node, value: &mut Value) -> Result<(), FieldProblem> {
        match value {
            Value::Object(fields) => {
                for (name, field) in &node.fields {
                    let Some(default) = &field.default else { continue };
                    let missing = match fields.get(name) {
                        None => true,
                        Some(value) => value.is_null() && !field.types.allows("null"),
                    };
                    if missing {
                        self.make_room(name.len() + written_bytes(default))?;
                        fields.insert(name.clone(), default.clone());
                    }
                }
                for (name, value) in fields.iter_mut() {
                    if let Some(field) = node.field(name) {
                        self.below(Step::Field(name.clone()), field, value)?;
                    }
                }
            }
            Value::Array(items) => {
                if let Some(item) = node.item() {
                    for (index, value) in items.iter_mut().enumerate() {
                        self.below(Step::Index(index), item, value)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn below(&mut self, step: Step, node: &Node, value: &mut Value) -> Result<(), FieldProblem> {
        self.at.push(step);
        let done = self.place(node, value);
        self.at.pop();
        done
    }

    fn make_room(&mut self, bytes: usize) -> Result<(), FieldProblem> {
        let left = self.room.checked_sub(bytes);
        self.room = left.ok_or_else(|| {
            FieldProblem::new(
                &self.at,
                format!("defaults would add more than {DEFAULTED_BYTES_MAX} bytes to the object"),
            )
        })?;
        Ok(())
    }
}
