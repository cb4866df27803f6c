//! Showing in a replica's status what it waits for. Only as long as it waits: a status that was written since is not overwritten.

use std::sync::Arc;

use serde_json::json;
use setpoint_client::{Client, Patch, PatchOptions};
use setpoint_runtime::cache::{Cache, Key};
use setpoint_types::kinds::Replica;
use setpoint_types::{Revision, Timestamp};

use crate::core::engine::Report;

/// What came of a report.
pub enum Shown {
    Done,
    /// The replica was changed meanwhile, or the server did not answer.
    Again(Arc<str>),
}

pub async fn show(
    client: Client,
    replicas: Cache<Replica>,
    report: Report,
    seen: Revision,
    now: Timestamp,
) -> Shown {
    let (namespace, name) = report.replica.split_once('/').unwrap_or(("", &report.replica));
    // Gone from the cache: it has a node, or is gone.
    let Some(cached) = replicas.get(&Key::new(namespace, name)) else { return Shown::Done };
    if cached.uid() != report.uid {
        return Shown::Done;
    }
    let status = json!({"status": {
        "stage": "queued",
        "stages": {"queuedMs": now},
        "blocked": {
            "reason": report.reason,
            "message": report.message,
            "sinceMs": now,
            "revision": seen,
        },
        "scheduleAttempts": report.attempts,
    }});
    let options = PatchOptions {
        uid: Some(report.uid.clone()),
        revision: Some(cached.revision()),
        status: true,
        ..PatchOptions::default()
    };
    let api = client.api::<Replica>().namespace(namespace);
    match api.patch(name, &Patch::Merge(status), &options).await {
        Ok(_) => Shown::Done,
        Err(error) if error.is_not_found() || error.is_fenced() => Shown::Done,
        Err(error) => {
            if !error.is_conflict() {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    replica = &*report.replica,
                    "a status was not written"
                );
            }
            Shown::Again(report.replica)
        }
    }
}
