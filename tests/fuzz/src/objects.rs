//! JSON from bytes, and patches of it.

use serde_json::Value;
use setpoint_objects::DEPTH_MAX;
use setpoint_objects::decode::decode;
use setpoint_objects::patch::{GROWTH_BYTES_MAX, PatchKind, apply};

use crate::input::Input;

/// What is decoded is what any decoder reads, no deeper than walks may go, and survives being written down.
pub fn json(data: &[u8]) {
    let Ok(decoded) = decode(data, ".spec") else { return };
    assert!(depth(&decoded.value) <= DEPTH_MAX);
    for repeated in &decoded.repeated {
        assert!(repeated.path.starts_with(".spec"), "{repeated}");
    }
    if !data.is_empty() {
        assert!(same(&serde_json::from_slice(data).expect("JSON"), &decoded.value), "{}", decoded.value);
    }
    let again = decode(decoded.value.to_string().as_bytes(), "").expect("what was printed");
    assert_eq!((again.value, again.repeated.len()), (decoded.value, 0));
}

/// The same value, however a number is written.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let same = |(name, one): (&String, &Value)| other.get(name).is_some_and(|other| same(one, other));
            one.len() == other.len() && one.iter().all(same)
        }
        _ => one == other,
    }
}

/// A patch fits and its result is bounded, or it is refused. A merge patch done again changes nothing.
pub fn patch(data: &[u8]) {
    let mut input = Input::new(data);
    let (document, patch) = (input.part(), input.part());
    let (Ok(document), Ok(patch)) = (decode(document, ""), decode(patch, "")) else { return };
    let (document, patch) = (document.value, patch.value);
    if let Ok(merged) = apply(PatchKind::Merge, &document, &patch) {
        assert_eq!(apply(PatchKind::Merge, &merged, &patch).as_ref(), Ok(&merged));
        check_size(&document, &patch, &merged);
    }
    if let Ok(patched) = apply(PatchKind::Json, &document, &patch) {
        check_size(&document, &patch, &patched);
    }
}

fn check_size(document: &Value, patch: &Value, result: &Value) {
    let bytes = |value: &Value| value.to_string().len();
    assert!(bytes(result) <= bytes(document) + bytes(patch) + 2 * GROWTH_BYTES_MAX);
}

pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(array) => 1 + array.iter().map(depth).max().unwrap_or_default(),
        Value::Object(object) => 1 + object.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}
