//! Patches that a policy's expression yields, applied to an object. How one is applied is in `objects`, as for clients' own;
//! here is what of it a policy may.

use serde_json::Value;
use setpoint_objects::patch::{self, PatchKind};
use setpoint_types::kinds::MutationType;

use crate::limits::{MUTATED_BYTES_MAX, MUTATED_DEPTH_MAX, PATCH_STEPS_MAX};
use crate::size::{depth, written_bytes};

/// Applies what an expression yielded.
pub fn apply(object: &mut Value, kind: MutationType, patch: &Value) -> Result<(), String> {
    let kind = match (kind, patch) {
        (MutationType::Merge, Value::Object(_)) => PatchKind::Merge,
        (MutationType::Merge, _) => return Err("yields no map to merge".to_owned()),
        (MutationType::JsonPatch, Value::Array(steps)) if steps.len() > PATCH_STEPS_MAX => {
            return Err(format!("yields more than {PATCH_STEPS_MAX} operations"));
        }
        (MutationType::JsonPatch, Value::Array(_)) => PatchKind::Json,
        (MutationType::JsonPatch, _) => return Err("yields no list of operations".to_owned()),
    };
    *object = patch::apply(kind, object, patch).map_err(|error| format!("cannot be done: {error}"))?;
    if written_bytes(object) > MUTATED_BYTES_MAX {
        return Err(format!("makes the object larger than {MUTATED_BYTES_MAX} bytes"));
    }
    if depth(object) > MUTATED_DEPTH_MAX {
        return Err(format!("makes the object nest deeper than {MUTATED_DEPTH_MAX} levels"));
    }
    Ok(())
}
