//! Making replicas leave their nodes for more important ones: their bindings' release is asked for, and the reason is committed with it.
//! Their agents stop them; nobody has their place before that is done.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use setpoint_client::{Client, Error};
use setpoint_runtime::cache::{Cache, Key};
use setpoint_runtime::recorder::Recorder;
use setpoint_types::Timestamp;
use setpoint_types::kinds::{Binding, Outcome, Verdict, Victim};
use setpoint_types::object::{Object, ObjectReference};

use super::record::grounds;
use crate::core::engine::Eviction;

/// The victim stays, or nobody knows: it has to be looked at again.
pub type Stayed = Option<Arc<str>>;

/// So long after a request that came to nothing the caches have most likely seen why; others are not asked to leave before.
const CATCH_UP: Duration = Duration::from_millis(200);

pub async fn evict(
    client: Client,
    bindings: Cache<Binding>,
    recorder: Recorder,
    eviction: Eviction,
    now: Timestamp,
) -> Stayed {
    let (namespace, name) = eviction.victim.split_once('/').unwrap_or(("", &eviction.victim));
    let Some(cached) = bindings.get(&Key::new(namespace, name)) else {
        tokio::time::sleep(CATCH_UP).await;
        return Some(eviction.victim);
    };
    let message = format!(
        "its place on node {} is for {}/{}, whose priority is {}",
        eviction.node, eviction.namespace, eviction.workload, eviction.by_priority
    );
    let mut binding = Object::new("Binding", namespace, name).with_status(&json!({
        "state": "ReleaseRequested",
        "reason": "Preempted",
        "message": message,
        "sinceMs": now,
    }));
    binding.metadata.uid = cached.uid();
    let key = binding.key();
    let transaction = client.transaction().if_at(&key, cached.revision()).apply_dynamic(&binding, true, true);
    let draft = grounds(&eviction.namespace, &eviction.workload, now).decide("Preempt").victim(Victim {
        replica: ObjectReference {
            kind: "Replica".to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..ObjectReference::default()
        },
        priority: eviction.priority,
        node: eviction.node.to_string(),
    });
    let draft = draft.verdict(Verdict {
        outcome: Outcome::Accepted,
        message,
        node: eviction.node.to_string(),
        ..Verdict::default()
    });
    let with = draft.into_transaction(transaction, &client, recorder.detail());
    match with.transaction.commit(&with.options).await {
        Ok(_) => None,
        Err(error) => {
            log(&error, &eviction.victim);
            tokio::time::sleep(CATCH_UP).await;
            Some(eviction.victim)
        }
    }
}

fn log(error: &Error, victim: &str) {
    if !error.is_conflict() {
        tracing::warn!(error = error as &dyn std::error::Error, victim, "a release could not be asked for");
    }
}
