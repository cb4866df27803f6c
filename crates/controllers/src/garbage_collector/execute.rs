//! Doing what the plan of an owner says. Nothing is decided here: every write is of the very object that was looked at, as it was.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use serde_json::json;
use setpoint_client::{Client, DeleteOptions, Dynamic, Error, Patch, PatchOptions, Scope, WriteOptions};
use setpoint_runtime::{Action, ReconcileError};
use setpoint_types::{Metadata, ObjectKey, Revision, Uid};

use super::kinds::Kinds;
use super::plan::{Disowned, Doomed, Observed, Owner, Plan};

/// Writes at a time.
const CONCURRENCY: usize = 8;
const AGAIN: Duration = Duration::from_millis(200);

pub(super) async fn execute(
    kinds: &Kinds,
    client: &Client,
    observed: &Observed,
    plan: Plan,
) -> Result<Action, ReconcileError> {
    first_failure(plan.delete.iter().map(|doomed| delete(client, doomed).boxed()).collect()).await?;
    let parts =
        |key: &ObjectKey| observed.parts.iter().find(|part| part.key == *key).map(|part| &part.metadata);
    let disowns = plan.disown.iter().filter_map(|it| Some(disown(client, it, parts(&it.key)?).boxed()));
    first_failure(disowns.collect()).await?;
    if let (Some(finalizer), Owner::Going { metadata, .. }) = (plan.finish, &observed.owner) {
        let left: Vec<&String> = metadata.finalizers.iter().filter(|it| **it != finalizer).collect();
        let api = client.shaped::<Dynamic>(&observed.id.kind, kinds.scope(&observed.id));
        let patch = Patch::Merge(json!({"metadata": {"finalizers": left}}));
        gone_is_fine(api.patch(&observed.id.name, &patch, &of(&metadata.uid, metadata.revision)).await)?;
    }
    Ok(if plan.again { Action::RequeueAfter(AGAIN) } else { Action::Done })
}

async fn first_failure(writes: Vec<BoxFuture<'_, Result<(), ReconcileError>>>) -> Result<(), ReconcileError> {
    let mut results = stream::iter(writes).buffer_unordered(CONCURRENCY);
    let mut failed = None;
    while let Some(result) = results.next().await {
        failed = failed.or(result.err());
    }
    failed.map_or(Ok(()), Err)
}

async fn delete(client: &Client, doomed: &Doomed) -> Result<(), ReconcileError> {
    let options = DeleteOptions {
        uid: Some(doomed.uid.clone()),
        revision: Some(doomed.revision),
        propagation: doomed.propagation(),
        write: WriteOptions::default(),
    };
    gone_is_fine(api(client, &doomed.key).delete(&doomed.key.name, &options).await)
}

async fn disown(client: &Client, disowned: &Disowned, part: &Metadata) -> Result<(), ReconcileError> {
    let owners: Vec<_> = part.owners.iter().filter(|it| it.uid != disowned.owner).collect();
    let patch = Patch::Merge(json!({"metadata": {"owners": owners}}));
    let key = &disowned.key;
    gone_is_fine(api(client, key).patch(&key.name, &patch, &of(&disowned.uid, disowned.revision)).await)
}

fn api(client: &Client, key: &ObjectKey) -> setpoint_client::Api<Dynamic> {
    let scope = if key.namespace.is_empty() { Scope::Cluster } else { Scope::namespace(&key.namespace) };
    client.shaped::<Dynamic>(&key.kind, scope)
}

fn of(uid: &Uid, revision: Revision) -> PatchOptions {
    PatchOptions { uid: Some(uid.clone()), revision: Some(revision), ..PatchOptions::default() }
}

fn gone_is_fine<T>(done: Result<T, Error>) -> Result<(), ReconcileError> {
    match done {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}
