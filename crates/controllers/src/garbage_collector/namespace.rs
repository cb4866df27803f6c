//! One namespace: what is in it when it is deleted, which records of it are too old, and parts and owners of users' kinds, which no
//! cache tells of.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::de::DeserializeOwned;
use setpoint_client::{Client, DeleteOptions, Dynamic, ListOptions, Propagation, Scope, WriteOptions};
use setpoint_runtime::{Action, ReconcileError};
use setpoint_types::kinds::{DecisionStatus, EventStatus, Namespace};
use setpoint_types::object::Object;
use setpoint_types::{FieldProblem, Metadata, Timestamp, registry};

use super::GarbageSettings;
use super::kinds::Kinds;
use super::owner::OwnerId;
use super::plan::{Order, plan};
use super::retention::{Record, Retention, expired};
use super::{execute, observe};

/// Objects that one run deletes: beyond that it looks again first.
const DELETES_MAX: usize = 1_000;
/// Between two looks at a namespace that is being emptied.
const EMPTYING: Duration = Duration::from_secs(1);
/// What goes first: those that would make others again.
const MAKERS: [&str; 2] = ["Autoscaler", "Workload"];

pub(super) async fn look_after(
    kinds: &Kinds,
    client: &Client,
    settings: &GarbageSettings,
    namespace: &Metadata,
    now: Timestamp,
) -> Result<Action, ReconcileError> {
    let name = namespace.name.as_str();
    if namespace.is_terminating() {
        return empty(kinds, client, namespace).await;
    }
    keep::<EventStatus>(client, name, "Event", settings.events, now).await?;
    keep::<DecisionStatus>(client, name, "Decision", settings.decisions, now).await?;
    sweep_users_kinds(kinds, client, name).await?;
    Ok(Action::RequeueAfter(Duration::from_secs(settings.interval_seconds)))
}

/// Deletes what is in a namespace, makers first, and the namespace once it is empty.
async fn empty(kinds: &Kinds, client: &Client, namespace: &Metadata) -> Result<Action, ReconcileError> {
    let name = namespace.name.as_str();
    let defined = kinds.defined().into_iter().filter(|(_, namespaced)| *namespaced).map(|(kind, _)| kind);
    let built_in = registry::kinds().iter().map(|kind| kind.info).filter(|info| info.namespaced);
    let mut all: Vec<String> = built_in.map(|info| info.name.to_owned()).chain(defined).collect();
    all.sort_by_key(|kind| !MAKERS.contains(&kind.as_str()));
    let mut left = 0;
    for kind in all {
        let api = client.shaped::<Dynamic>(&kind, Scope::namespace(name));
        let options = ListOptions { page: 500, ..ListOptions::default() };
        for object in api.list(&options).await?.objects {
            left += 1;
            // A binding goes with its replica, once it is released.
            if !object.metadata.is_terminating() && kind != "Binding" {
                delete(client, &object, Propagation::Background).await?;
            }
        }
    }
    if left > 0 {
        return Ok(Action::RequeueAfter(EMPTYING));
    }
    let options = DeleteOptions { uid: Some(namespace.uid.clone()), ..DeleteOptions::default() };
    match client.api::<Namespace>().delete(name, &options).await {
        Ok(deleted) if !deleted.gone => Ok(Action::RequeueAfter(EMPTYING)),
        Ok(_) => Ok(Action::Done),
        Err(error) if error.is_not_found() => Ok(Action::Done),
        // Something came after it was looked.
        Err(error) if error.is_conflict() => Ok(Action::RequeueAfter(EMPTYING)),
        Err(error) => Err(error.into()),
    }
}

/// When a record was last told of.
trait Told: DeserializeOwned + Default {
    fn last(&self) -> Timestamp;
}

impl Told for EventStatus {
    fn last(&self) -> Timestamp {
        self.last
    }
}

impl Told for DecisionStatus {
    fn last(&self) -> Timestamp {
        self.last
    }
}

/// Deletes records that are too old or too many.
async fn keep<S: Told>(
    client: &Client,
    namespace: &str,
    kind: &str,
    retention: Retention,
    now: Timestamp,
) -> Result<(), ReconcileError> {
    let api = client.shaped::<Dynamic>(kind, Scope::namespace(namespace));
    let mut records = Vec::new();
    let options = ListOptions { page: 500, ..ListOptions::default() };
    let mut page = api.list(&options).await?;
    loop {
        for object in &page.objects {
            records.push(record::<S>(object)?);
        }
        let Some(next) = api.list_next(&options, &page).await? else { break };
        page = next;
    }
    for record in expired(records, retention, now).into_iter().take(DELETES_MAX) {
        let options = DeleteOptions {
            uid: Some(record.uid),
            revision: Some(record.revision),
            propagation: Propagation::Background,
            write: WriteOptions::default(),
        };
        match api.delete(&record.name, &options).await {
            Ok(_) => {}
            // Gone, or told of again.
            Err(error) if error.is_not_found() || error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn record<S: Told>(object: &Object) -> Result<Record, FieldProblem> {
    let status: S = object.status()?;
    let metadata = &object.metadata;
    Ok(Record {
        last: status.last().max(metadata.created),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        revision: metadata.revision,
    })
}

/// Looks at every owner that is of a user's kind, or has parts of one.
async fn sweep_users_kinds(kinds: &Kinds, client: &Client, namespace: &str) -> Result<(), ReconcileError> {
    let defined = kinds.defined();
    if defined.is_empty() {
        return Ok(());
    }
    let mut owners = BTreeSet::new();
    let mut named_by = |part: &Metadata| {
        for reference in &part.owners {
            owners.insert(OwnerId::named_by(reference, namespace, kinds.is_namespaced(&reference.kind)));
        }
    };
    let mut going = Vec::new();
    for (kind, metadata) in kinds.of_users(client, namespace).await? {
        named_by(&metadata);
        if Order::of(&metadata).is_some() {
            let (name, uid) = (metadata.name, metadata.uid);
            going.push(OwnerId { kind, namespace: namespace.to_owned(), name, uid });
        }
    }
    for (kind, _) in &defined {
        kinds.parts_of_kind(kind, namespace).iter().for_each(&mut named_by);
    }
    owners.extend(going);
    for owner in owners {
        let is_there = kinds.cached(&owner).is_some_and(|metadata| Order::of(&metadata).is_none());
        if !is_there && let Some(observed) = observe::observe_whole(kinds, client, owner).await? {
            let plan = plan(&observed);
            execute::execute(kinds, client, &observed, plan).await?;
        }
    }
    Ok(())
}

async fn delete(client: &Client, object: &Object, propagation: Propagation) -> Result<(), ReconcileError> {
    let metadata = &object.metadata;
    let options = DeleteOptions {
        uid: Some(metadata.uid.clone()),
        revision: None,
        propagation,
        write: WriteOptions::default(),
    };
    let api = client.shaped::<Dynamic>(&object.kind, Scope::namespace(&metadata.namespace));
    match api.delete(&metadata.name, &options).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        Err(error) => Err(error.into()),
    }
}
