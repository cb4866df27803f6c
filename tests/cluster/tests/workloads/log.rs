//! What the store has written, revision by revision: the limits of a rollout at each of them, and who writes when nothing happens.

use std::collections::BTreeMap;

use prost::Message;
use setpoint_api::setpoint::v1 as pb;
use setpoint_cluster_tests::dump::events;
use setpoint_cluster_tests::ledger::Row;
use setpoint_cluster_tests::testbed::patiently;
use setpoint_types::kinds::{ReplicaSpec, ReplicaStatus, Stage};

use crate::estate::Estate;

const REPLICAS: &str = "/setpoint.v1/Replica/";

/// How many replicas of a workload there must be.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Serving, and not about to go.
    pub least: usize,
    /// At all, those being stopped included.
    pub most: usize,
}

impl Estate {
    /// Everything that was written from a revision on.
    pub async fn written(&self, from: u64) -> Vec<Row> {
        // A row of our own, so that there is an end.
        let last = patiently(|| self.bed.clients[0].put("the/end", "")).await;
        let first = i64::try_from(from).expect("a revision");
        let log = patiently(|| async {
            let found = events(&self.bed.clients[0], first, last).await;
            found.map_err(|error| tonic::Status::unavailable(error.to_string()))
        });
        let mut rows: Vec<Row> = log.await.into_iter().map(Row::of).collect();
        rows.retain(|row| row.key != "the/end");
        rows
    }

    /// At every revision from this one on, the replicas of the workload are within bounds.
    pub async fn within(&self, workload: &str, from: u64, bounds: Bounds) {
        let mut serves: BTreeMap<String, bool> = BTreeMap::new();
        let mut checked = 0;
        for of_one in self.written(1).await.chunk_by(|a, b| a.revision == b.revision) {
            let revision = of_one[0].revision;
            for row in of_one.iter().filter(|row| row.key.starts_with(REPLICAS)) {
                match &row.value {
                    None => drop(serves.remove(&row.key)),
                    Some(value) => {
                        let object = pb::Object::decode(value.clone()).expect("an object");
                        if is_of(&object, workload) {
                            serves.insert(row.key.clone(), is_serving(&object));
                        }
                    }
                }
            }
            if revision < from {
                continue;
            }
            checked += 1;
            let serving = serves.values().filter(|serves| **serves).count();
            assert!(
                serving >= bounds.least && serves.len() <= bounds.most,
                "revision {revision}: {serves:#?}, against {bounds:?}"
            );
        }
        assert!(checked > 0, "nothing was written");
    }
}

fn is_of(object: &pb::Object, workload: &str) -> bool {
    let spec: ReplicaSpec = serde_json::from_slice(&object.spec).expect("a replica");
    spec.workload == workload
}

fn is_serving(object: &pb::Object) -> bool {
    let status: ReplicaStatus = serde_json::from_slice(&object.status).unwrap_or_default();
    let goes = object.metadata.as_ref().is_some_and(|metadata| metadata.deleted_ms.is_some());
    status.stage == Stage::Serving && !goes
}

/// How often each key was written.
pub fn counted(rows: &[Row]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for row in rows {
        *counts.entry(row.key.clone()).or_default() += 1;
    }
    counts
}
