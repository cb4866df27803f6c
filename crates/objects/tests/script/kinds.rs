//! The kinds of the scripts.

use std::collections::BTreeMap;

use serde_json::json;
use setpoint_objects::Topology;

/// By name: whether it is in namespaces, and its shape.
pub fn all() -> BTreeMap<String, (bool, Topology)> {
    let of = |schema| Topology::of_kind(&schema).expect("a schema");
    let workload = json!({
        "type": "object",
        "properties": {
            "spec": {"$ref": "#/$defs/spec"},
            "status": {"type": "object", "properties": {
                "ready": {"type": "integer"},
                "observedGeneration": {"type": "integer"},
                "conditions": {
                    "type": "array", "x-setpoint-list-type": "map", "x-setpoint-list-map-keys": ["type"],
                    "items": {"type": "object", "properties": {
                        "type": {"type": "string"}, "status": {"type": "string"}, "reason": {"type": "string"},
                    }},
                },
            }},
        },
        "$defs": {
            "port": {"type": "object", "required": ["port"], "properties": {
                "port": {"type": "integer"},
                "protocol": {"type": "string", "default": "TCP"},
                "name": {"type": "string"},
            }},
            "spec": {"type": "object", "properties": {
                "replicas": {"type": "integer"},
                "image": {"type": "string"},
                "paused": {"type": "boolean", "default": false},
                "zones": {"type": "array", "items": {"type": "string"}, "x-setpoint-list-type": "set"},
                "args": {"type": "array", "items": {"type": "string"}},
                "ports": {
                    "type": "array", "items": {"$ref": "#/$defs/port"},
                    "x-setpoint-list-type": "map", "x-setpoint-list-map-keys": ["port", "protocol"],
                },
                "resources": {"type": "object", "additionalProperties": {"type": "string"}},
                "selector": {
                    "type": "object", "additionalProperties": {"type": "string"}, "x-setpoint-map-type": "atomic",
                },
                "template": {"type": "object", "properties": {
                    "command": {"type": "string"}, "user": {"type": "string"},
                    "limits": {"type": "object", "properties": {"cpu": {"type": "integer", "default": 1}}},
                }},
                "volume": {"type": "string", "x-setpoint-immutable": true},
                "free": {"type": "object", "x-setpoint-preserve-unknown": true},
            }},
        },
    });
    BTreeMap::from([
        ("Workload".to_owned(), (true, of(workload))),
        ("Node".to_owned(), (false, Topology::any())),
        ("Replica".to_owned(), (true, Topology::any())),
        ("Role".to_owned(), (false, of(json!({"properties": {"spec": {"type": "object"}}})))),
    ])
}
