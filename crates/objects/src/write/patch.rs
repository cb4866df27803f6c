//! Patch: an update computed from the stored object.

use serde_json::{Map, Value, json};

use super::draft::Draft;
use super::update::replace;
use super::{Context, Incoming, Kind, check_conditions, not_found};
use crate::decode::decode;
use crate::fields::push_field;
use crate::metadata;
use crate::object::{Metadata, Object, Subresource};
use crate::patch::{PatchKind, apply};
use crate::refusal::{FieldProblem, Refusal};
use crate::unknown::prune;

/// What to change about an object.
#[derive(Clone, Copy, Debug)]
pub struct Patch<'a> {
    pub kind: PatchKind,
    /// JSON over `{"kind": …, "metadata": …, "spec": …, "status": …}`.
    pub patch: &'a [u8],
    /// Conditions; empty and 0 are none.
    pub uid: &'a str,
    pub revision: u64,
    pub subresource: Subresource,
}

/// Patches the object of this key.
pub fn patch<'a>(
    kind: &Kind<'a>,
    stored: Option<&'a Object>,
    key: &Metadata,
    request: &Patch<'_>,
    context: &Context<'a>,
) -> Result<Draft<'a>, Refusal> {
    let before = stored.ok_or_else(|| not_found(kind, key))?;
    check_conditions(before, request.uid, request.revision)?;
    let decoded = decode(request.patch, "patch").map_err(|problem| Refusal::invalid(vec![problem]))?;
    let patched = apply(request.kind, &document(kind, before), &decoded.value)?;
    // A patch is written in its own words: where it repeats a field is not where the object would.
    let repeated = decoded.repeated;
    let (object, unknown) = read(kind, patched)?;
    replace(
        kind,
        stored,
        Incoming { object, repeated: [repeated, unknown].concat() },
        request.subresource,
        context,
    )
}

/// What a patch sees: the object without fields its schema has forgotten, which nobody could have meant.
fn document(kind: &Kind<'_>, object: &Object) -> Value {
    let topology = kind.topology;
    let (mut spec, mut status) = (object.spec.clone(), object.status.clone());
    prune(&mut spec, topology, topology.spec(), ".spec");
    prune(&mut status, topology, topology.status(), ".status");
    let mut document =
        json!({"kind": object.kind, "metadata": metadata::to_json(&object.metadata), "spec": spec});
    if !status.is_null() {
        document["status"] = status;
    }
    document
}

/// The object a patch came to, and fields that no object has.
fn read(kind: &Kind<'_>, document: Value) -> Result<(Object, Vec<FieldProblem>), Refusal> {
    let Value::Object(mut document) = document else {
        return Err(Refusal::field("patch", "leaves something that is no object"));
    };
    let mut take = |name: &str| document.remove(name).unwrap_or(Value::Null);
    let (said, mut said_metadata, spec, status) =
        (take("kind"), take("metadata"), take("spec"), take("status"));
    let mut unknown = unknown_sections(&document);
    unknown.extend(prune(&mut said_metadata, kind.topology, kind.topology.metadata(), ".metadata"));
    let metadata = metadata::from_json(&said_metadata).map_err(Refusal::invalid)?;
    let said = match said {
        Value::String(said) => said,
        Value::Null => String::new(),
        _ => return Err(Refusal::field(".kind", "must be a string")),
    };
    Ok((Object { kind: said, metadata, spec, status }, unknown))
}

fn unknown_sections(document: &Map<String, Value>) -> Vec<FieldProblem> {
    let name = |name: &String| {
        let mut path = String::new();
        push_field(&mut path, name);
        FieldProblem::new(path, "is no part of an object: there are metadata, spec and status")
    };
    document.keys().map(name).collect()
}
