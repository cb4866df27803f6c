//! What the crate `objects` does to a spec before a kind is asked about it.

use serde_json::{Map, Value};
use setpoint_objects::{Topology, default};
use setpoint_types::Kind;

pub fn topology(kind: &Kind) -> Topology {
    Topology::of_kind(kind.schema()).expect("a schema")
}

/// Fills in defaults. A spec that is null becomes an object.
pub fn fill(topology: &Topology, spec: &mut Value) {
    if spec.is_null() {
        *spec = Value::Object(Map::new());
    }
    default::drop_nulls(spec, topology, topology.spec());
    default::fill(spec, topology, topology.spec(), &serde_json::Value::Null, "").expect("little");
}
