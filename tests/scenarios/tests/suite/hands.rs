//! What schedulers and agents do, in a few lines: every replica gets a node, starts, serves, and is stopped when it is deleted.
//!
//! Not by `Placement`, and without capacity: what is tested here is what controllers make of the records.

use std::time::Duration;

use serde_json::json;
use setpoint_client::{Client, Error, Patch, PatchOptions, Typed, WatchEvent, WatchOptions, WriteOptions};
use setpoint_testkit::now;
use setpoint_types::kinds::{
    Binding, BindingSpec, BindingState, BindingStatus, Exit, Replica, ReplicaStatus, Stage,
};
use setpoint_types::{Timestamp, Uid};
use tokio::time::sleep;

/// A replica with this command never becomes ready.
pub const BROKEN: &str = "broken";
/// One with this command succeeds; one with the other fails the first time.
pub const SUCCEEDS: &str = "succeeds";
pub const FAILS_ONCE: &str = "fails-once";
pub const FAILS: &str = "fails";
/// How long anything takes.
const STEP: Duration = Duration::from_secs(2);

/// Works until the world ends. For a scenario's setup, whose client nothing goes wrong with.
pub fn hire(client: &Client) {
    tokio::spawn(work(client.clone()));
}

async fn work(client: Client) {
    let api = client.api::<Replica>().all_namespaces();
    loop {
        let Ok(mut watch) = api.watch(&WatchOptions::default()).await else {
            sleep(STEP).await;
            continue;
        };
        while let Ok(Some(events)) = watch.next().await {
            for event in events {
                if let WatchEvent::Added { object, .. } | WatchEvent::Modified { object, .. } = event {
                    // Each on its own time; whoever is too late is told so by the server.
                    tokio::spawn(serve(client.clone(), object));
                }
            }
        }
    }
}

async fn serve(client: Client, replica: Typed<Replica>) {
    // The next event goes on from wherever this one ended.
    next(&client, replica).await.ok();
}

async fn next(client: &Client, replica: Typed<Replica>) -> Result<(), Error> {
    let status = replica.status.clone().unwrap_or_default();
    if replica.metadata.is_terminating() {
        sleep(STEP).await;
        return release(client, &replica).await;
    }
    match status.stage {
        Stage::Admitted => bind(client, replica, status).await,
        Stage::Bound => {
            sleep(STEP).await;
            let command = replica.spec.template.command.first().map_or("", String::as_str).to_owned();
            let attempt = replica.spec.attempt;
            match command.as_str() {
                BROKEN => Ok(()),
                SUCCEEDS => end(client, replica, status, true).await,
                FAILS => end(client, replica, status, false).await,
                FAILS_ONCE => end(client, replica, status, attempt > 0).await,
                _ => ready(client, replica, status).await,
            }
        }
        Stage::Succeeded | Stage::Failed => release(client, &replica).await,
        _ => Ok(()),
    }
}

async fn write(client: &Client, mut replica: Typed<Replica>, status: ReplicaStatus) -> Result<(), Error> {
    let api = client.api::<Replica>().namespace(&replica.metadata.namespace);
    replica.status = Some(status);
    api.update_status(&replica, &WriteOptions::default()).await.map(drop)
}

async fn bind(client: &Client, replica: Typed<Replica>, mut status: ReplicaStatus) -> Result<(), Error> {
    let name = &replica.metadata.name;
    let spec = BindingSpec {
        replica: name.clone(),
        replica_uid: replica.metadata.uid.clone(),
        node: "n1".to_owned(),
        node_uid: Uid::new("n1"),
        ..BindingSpec::default()
    };
    let mut binding = Typed::<Binding>::new(name, spec).in_namespace(&replica.metadata.namespace);
    binding.metadata.owners.push(replica.as_controller());
    let held = Patch::Merge(json!({"metadata": {"finalizers": ["setpoint/binding"]}}));
    let api = client.api::<Replica>().namespace(&replica.metadata.namespace);
    let of_this = PatchOptions { revision: Some(replica.metadata.revision), ..PatchOptions::default() };
    let held = api.patch(name, &held, &of_this).await?.object;
    let bindings = client.api::<Binding>().namespace(&replica.metadata.namespace);
    bindings.create(&binding, &WriteOptions::default()).await?;
    status.stage = Stage::Bound;
    status.node = "n1".to_owned();
    status.binding = name.clone();
    status.stages.bound = Some(now());
    write(client, held, status).await
}

async fn ready(client: &Client, replica: Typed<Replica>, mut status: ReplicaStatus) -> Result<(), Error> {
    status.stage = Stage::Serving;
    status.stages.ready = Some(now());
    write(client, replica, status).await
}

async fn end(
    client: &Client,
    replica: Typed<Replica>,
    mut status: ReplicaStatus,
    well: bool,
) -> Result<(), Error> {
    let (stage, reason) = if well { (Stage::Succeeded, "Completed") } else { (Stage::Failed, "Error") };
    status.stage = stage;
    status.stages.ended = Some(now());
    status.last_exit = Some(Exit { reason: reason.to_owned(), ..Exit::default() });
    write(client, replica, status).await
}

/// Gives its node back, and lets it go if it is to.
async fn release(client: &Client, replica: &Typed<Replica>) -> Result<(), Error> {
    let (namespace, name) = (&replica.metadata.namespace, &replica.metadata.name);
    let bindings = client.api::<Binding>().namespace(namespace);
    if let Some(mut binding) = bindings.find(name).await?
        && binding.spec.replica_uid == replica.metadata.uid
    {
        let mut before = binding.status.take().unwrap_or_default();
        if before.state != BindingState::Released {
            // First that nothing runs any more, then that the node is free.
            before.stopped = before.stopped.or(Some(now()));
            binding.status = Some(before.clone());
            binding = bindings.update_status(&binding, &WriteOptions::default()).await?.object;
            let revision = binding.metadata.revision;
            binding.status = Some(BindingStatus {
                state: BindingState::Released,
                since: now(),
                released_revision: revision,
                ..before
            });
            bindings.update_status(&binding, &WriteOptions::default()).await?;
        }
    }
    if replica.metadata.finalizers.is_empty() {
        return Ok(());
    }
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let of_this = PatchOptions { uid: Some(replica.metadata.uid.clone()), ..PatchOptions::default() };
    client.api::<Replica>().namespace(namespace).patch(name, &patch, &of_this).await.map(drop)
}

/// A node that is out of reach: every binding of it is unknown, and its release will be asked for in a minute.
pub async fn lose_node(client: Client) -> Result<(), Error> {
    let bindings = client.api::<Binding>().namespace("default");
    let (all, _) = bindings.list_all(&Default::default()).await?;
    for mut binding in all {
        let status = binding.status.take().unwrap_or_default();
        if status.state == BindingState::Bound {
            let grace_until = Some(Timestamp(now().0 + 60_000));
            binding.status =
                Some(BindingStatus { state: BindingState::Unknown, since: now(), grace_until, ..status });
            bindings.update_status(&binding, &WriteOptions::default()).await?;
        }
    }
    Ok(())
}
