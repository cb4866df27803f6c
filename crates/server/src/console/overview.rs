//! How the whole stands, in numbers: workloads, their replicas and nodes by state.
//!
//! Replicas are summed up from what the workloads' status says of them: there may be a hundred thousand, and they are not read for it.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::{Value, json};
use setpoint_api::setpoint::v1::Object;

use super::Console;
use super::call::Call;
use super::list::{Asked, Walked, walk};
use super::refusal::Refused;

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Workloads {
    total: usize,
    phases: BTreeMap<String, u32>,
    replicas: BTreeMap<String, u64>,
    pending: BTreeMap<String, u64>,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Nodes {
    total: usize,
    ready: usize,
    unready: usize,
    unknown: usize,
    cordoned: usize,
    draining: usize,
}

pub async fn answer(_: State<Console>, call: Call) -> Json<Value> {
    let (mut workloads, mut nodes) = (Workloads::default(), Nodes::default());
    let seen = walk(&call, &Asked::of("Workload"), |object| workloads.add(&object)).await;
    let workloads = part(seen, &workloads);
    let seen = walk(&call, &Asked::of("Node"), |object| nodes.add(&object)).await;
    let nodes = part(seen, &nodes);
    Json(json!({ "workloads": workloads, "nodes": nodes }))
}

/// Each by itself: who may see one kind and not the other sees that one.
fn part(seen: Result<Walked, Refused>, counts: &impl Serialize) -> Value {
    match seen {
        Ok(Walked { revision, complete, .. }) => {
            json!({ "counts": counts, "revision": revision, "complete": complete })
        }
        Err(refused) => refused.json(),
    }
}

/// The stages that the status of a workload counts, and how many there should be.
const COUNTED: [&str; 10] = [
    "desired",
    "pending",
    "bound",
    "starting",
    "ready",
    "serving",
    "unknown",
    "stopping",
    "succeeded",
    "failed",
];

/// Read as it comes, not as a type: what a newer or older controller wrote is counted as far as it is known.
fn read(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_default()
}

impl Workloads {
    fn add(&mut self, object: &Object) {
        self.total += 1;
        let status = read(&object.status);
        let phase = status["rollout"]["phase"].as_str().unwrap_or("Complete");
        *self.phases.entry(phase.to_owned()).or_default() += 1;
        for name in COUNTED {
            let count = status["replicas"][name].as_u64().unwrap_or(0);
            *self.replicas.entry(name.to_owned()).or_default() += count;
        }
        for pending in status["pendingReasons"].as_array().into_iter().flatten() {
            let reason = pending["reason"].as_str().unwrap_or("Unknown");
            *self.pending.entry(reason.to_owned()).or_default() += pending["count"].as_u64().unwrap_or(0);
        }
    }
}

impl Nodes {
    fn add(&mut self, object: &Object) {
        self.total += 1;
        let (spec, status) = (read(&object.spec), read(&object.status));
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        let ready = conditions.find(|condition| condition["type"] == "Ready");
        match ready.and_then(|condition| condition["status"].as_str()) {
            Some("True") => self.ready += 1,
            Some("False") => self.unready += 1,
            _ => self.unknown += 1,
        }
        self.cordoned += usize::from(spec["unschedulable"] == true);
        self.draining += usize::from(spec["drain"] == true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(spec: Value, status: Value) -> Object {
        let bytes = |value: Value| value.to_string().into_bytes().into();
        Object { spec: bytes(spec), status: bytes(status), ..Object::default() }
    }

    #[test]
    fn workloads_are_summed_up() {
        let mut workloads = Workloads::default();
        let status = json!({
            "replicas": { "desired": 3, "serving": 1, "pending": 2 },
            "pendingReasons": [{ "reason": "NoHeadroom", "count": 2 }],
            "rollout": { "phase": "Progressing" },
        });
        workloads.add(&object(json!({}), status));
        workloads.add(&object(json!({}), json!({ "replicas": { "desired": 1, "serving": 1 } })));
        assert_eq!(
            (workloads.total, workloads.replicas["desired"], workloads.replicas["serving"]),
            (2, 4, 2)
        );
        assert_eq!(
            workloads.phases,
            BTreeMap::from([("Complete".to_owned(), 1), ("Progressing".to_owned(), 1)])
        );
        assert_eq!(workloads.pending, BTreeMap::from([("NoHeadroom".to_owned(), 2)]));
    }

    #[test]
    fn nodes_are_counted_by_what_is_known_of_them() {
        let ready = |status: &str| json!({ "conditions": [{ "type": "Ready", "status": status }] });
        let mut nodes = Nodes::default();
        nodes.add(&object(json!({ "zone": "z" }), ready("True")));
        nodes.add(&object(json!({ "zone": "z", "unschedulable": true, "drain": true }), ready("False")));
        nodes.add(&object(json!({ "zone": "z" }), json!({})));
        assert_eq!(nodes, Nodes { total: 3, ready: 1, unready: 1, unknown: 1, cordoned: 1, draining: 1 });
    }
}
