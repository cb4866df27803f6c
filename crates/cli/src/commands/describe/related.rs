//! What belongs to an object: replicas of a workload or a node, the last decision about it, events.

use setpoint_client::{Client, ListOptions, Scope};
use setpoint_types::Timestamp;
use setpoint_types::kinds::{DecisionSpec, DecisionStatus, EventSpec, EventStatus, ReplicaStatus};
use setpoint_types::object::Object;

use super::or_nothing;
use super::sheet::Sheet;
use crate::failure::Failure;
use crate::output::age::age;
use crate::output::table::Table;

/// Of each kind of related things, so many at most.
const SHOWN_MAX: usize = 20;

pub async fn describe(
    client: &Client,
    object: &Object,
    now: Timestamp,
    sheet: &mut Sheet,
) -> Result<(), Failure> {
    let (name, namespace) = (&object.metadata.name, &object.metadata.namespace);
    match object.kind.as_str() {
        "Workload" => {
            let scope = Scope::namespace(namespace);
            replicas(client, scope, &format!("spec.workload={name}"), now, sheet).await?;
            decisions(client, object, now, sheet).await
        }
        "Node" => replicas(client, Scope::AllNamespaces, &format!("status.node={name}"), now, sheet).await,
        "Replica" => decisions(client, object, now, sheet).await,
        _ => Ok(()),
    }
}

async fn replicas(
    client: &Client,
    scope: Scope,
    fields: &str,
    now: Timestamp,
    sheet: &mut Sheet,
) -> Result<(), Failure> {
    let options = ListOptions { fields: fields.to_owned(), ..ListOptions::default() };
    let (found, _) = or_nothing(client.dynamic("Replica", scope.clone()).list_all(&options).await)?;
    let all = scope == Scope::AllNamespaces;
    let mut table = Table::new(["Name", "Stage", "Waits For", "Node", "Restarts", "Age"]);
    for object in found.iter().take(SHOWN_MAX) {
        let status: ReplicaStatus = object.status().unwrap_or_default();
        let metadata = &object.metadata;
        let name =
            if all { format!("{}/{}", metadata.namespace, metadata.name) } else { metadata.name.clone() };
        let stage = serde_json::to_value(status.stage).unwrap_or_default();
        let waits = status.blocked.map_or_else(String::new, |it| match it.message.as_str() {
            "" => format!("{:?}", it.reason),
            message => format!("{:?}: {message}", it.reason),
        });
        let stage = stage.as_str().unwrap_or_default().to_owned();
        table.row([name, stage, waits, status.node, status.restarts.to_string(), age(metadata.created, now)]);
    }
    sheet.table("Replicas", &table);
    if found.len() > SHOWN_MAX {
        sheet.line("", &format!("… and {} more", found.len() - SHOWN_MAX));
    }
    Ok(())
}

fn about(object: &Object) -> ListOptions {
    let fields = format!("spec.object.kind={},spec.object.name={}", object.kind, object.metadata.name);
    ListOptions { fields, ..ListOptions::default() }
}

/// Where what is said of an object is kept: beside it, or in the default namespace for one of the whole cluster.
fn beside(object: &Object) -> Scope {
    match object.metadata.namespace.as_str() {
        "" => Scope::AllNamespaces,
        namespace => Scope::namespace(namespace),
    }
}

async fn decisions(
    client: &Client,
    object: &Object,
    now: Timestamp,
    sheet: &mut Sheet,
) -> Result<(), Failure> {
    let found = client.dynamic("Decision", beside(object)).list_all(&about(object)).await;
    let (found, _) = or_nothing(found)?;
    let mut read: Vec<(DecisionSpec, DecisionStatus)> =
        found.iter().filter_map(|it| Some((it.spec().ok()?, it.status().unwrap_or_default()))).collect();
    let time = |it: &(DecisionSpec, DecisionStatus)| it.1.last.max(it.0.time);
    read.sort_by_key(|it| std::cmp::Reverse(time(it)));
    let mut table = Table::new(["Last", "Action", "Outcome", "Reason", "Count", "By", "Message"]);
    for it in read.iter().take(SHOWN_MAX) {
        let (spec, status) = it;
        table.row([
            age(time(it), now),
            spec.action.clone(),
            format!("{:?}", spec.verdict.outcome),
            spec.verdict.reason.map_or_else(String::new, |reason| format!("{reason:?}")),
            status.count.max(1).to_string(),
            spec.component.clone(),
            spec.verdict.message.clone(),
        ]);
    }
    sheet.table("Decisions", &table);
    Ok(())
}

pub async fn events(
    client: &Client,
    object: &Object,
    now: Timestamp,
    sheet: &mut Sheet,
) -> Result<(), Failure> {
    let found = client.dynamic("Event", beside(object)).list_all(&about(object)).await;
    let (found, _) = or_nothing(found)?;
    let mut read: Vec<(EventSpec, EventStatus)> = found
        .iter()
        .filter_map(|it| Some((it.spec().ok()?, it.status().unwrap_or_default())))
        // Of an earlier object of the same name there may be some, too.
        .filter(|(spec, _): &(EventSpec, EventStatus)| {
            spec.object.uid.is_empty() || spec.object.uid == object.metadata.uid
        })
        .collect();
    read.sort_by_key(|(_, status)| status.last);
    let mut table = Table::new(["Last", "Type", "Reason", "Count", "By", "Message"]);
    let newest = read.len().saturating_sub(SHOWN_MAX);
    for (spec, status) in &read[newest..] {
        table.row([
            age(status.last, now),
            format!("{:?}", spec.kind),
            spec.reason.clone(),
            status.count.to_string(),
            spec.component.clone(),
            spec.message.clone(),
        ]);
    }
    sheet.table("Events", &table);
    Ok(())
}
