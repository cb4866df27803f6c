//! `setpoint watch`: a live view of workloads: how far each has come, what the others wait for, what happened last.

use clap::Args;
use setpoint_client::{Client, ListOptions, Scope};
use setpoint_types::Timestamp;
use setpoint_types::kinds::{EventSpec, EventStatus, WorkloadStatus};
use setpoint_types::object::Object;

use crate::failure::Failure;
use crate::live::{Live, bar};
use crate::output::age::age;
use crate::output::table::{Table, Widths};
use crate::session::{Done, Session};
use crate::targets::Selection;

#[derive(Args)]
pub struct Watch {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    live: Live,
}

const BAR: usize = 20;
/// Of what happened last.
const EVENTS: usize = 8;

impl Watch {
    pub async fn run(self, session: &mut Session) -> Done {
        let selection = self.selection;
        self.live.show(session, async |session| frame(session, &selection).await).await
    }
}

async fn frame(session: &mut Session, selection: &Selection) -> Result<String, Failure> {
    let client = session.client()?;
    let (now, colour) = (session.now(), session.stage.terminal.colour);
    let scope = selection.scope(&client);
    let list = selection.list(setpoint_client::ReadAt::Latest);
    let (workloads, revision) = client.dynamic("Workload", scope.clone()).list_all(&list).await?;
    let (nodes, _) = client.dynamic("Node", Scope::Cluster).list_all(&ListOptions::default()).await?;
    let ready = nodes.iter().filter(|node| is_ready(node)).count();
    let mut text = format!(
        "Setpoint at revision {revision}: {ready} of {} nodes ready, workloads: {}\n\n",
        nodes.len(),
        workloads.len()
    );
    let shown = |table: &Table| table.render(&table.widths(&Widths::default()), true, colour);
    text.push_str(&shown(&progress(&workloads, scope == Scope::AllNamespaces)));
    let waiting = waiting(&workloads, now);
    if !waiting.is_empty() {
        text.push('\n');
        text.push_str(&shown(&waiting));
    }
    let happened = happened(&client, scope, now).await?;
    if !happened.is_empty() {
        text.push('\n');
        text.push_str(&shown(&happened));
    }
    Ok(text)
}

fn is_ready(node: &Object) -> bool {
    let conditions = node.status["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
}

fn name(object: &Object, namespaces: bool) -> String {
    match namespaces {
        true => format!("{}/{}", object.metadata.namespace, object.metadata.name),
        false => object.metadata.name.clone(),
    }
}

fn progress(workloads: &[Object], namespaces: bool) -> Table {
    let mut table = Table::new(["Workload", "Available", "", "Updated", "Pending", "Unknown", "Rollout"]);
    for object in workloads {
        let status: WorkloadStatus = object.status().unwrap_or_default();
        let counts = &status.replicas;
        let desired = u64::from(counts.desired);
        table.row([
            name(object, namespaces),
            bar(u64::from(counts.available), desired, BAR),
            format!("{}/{desired}", counts.available),
            counts.updated.to_string(),
            counts.pending.to_string(),
            counts.unknown.to_string(),
            format!("{:?}", status.rollout.phase),
        ]);
    }
    table
}

fn waiting(workloads: &[Object], now: Timestamp) -> Table {
    let mut table = Table::new(["Waits", "Replicas", "For", "Since", "Because"]);
    for object in workloads {
        let status: WorkloadStatus = object.status().unwrap_or_default();
        for it in status.pending_reasons {
            let reason = format!("{:?}", it.reason);
            table.row([name(object, false), it.count.to_string(), reason, age(it.since, now), it.message]);
        }
    }
    table
}

async fn happened(client: &Client, scope: Scope, now: Timestamp) -> Result<Table, Failure> {
    let (events, _) = client.dynamic("Event", scope).list_all(&ListOptions::default()).await?;
    let mut read: Vec<(EventSpec, EventStatus)> = events
        .iter()
        .filter_map(|event| Some((event.spec().ok()?, event.status().unwrap_or_default())))
        .collect();
    read.sort_by_key(|(_, status)| std::cmp::Reverse(status.last));
    let mut table = Table::new(["Last", "Type", "Reason", "Object", "Message"]);
    for (spec, status) in read.into_iter().take(EVENTS) {
        let object = format!("{}/{}", spec.object.kind.to_lowercase(), spec.object.name);
        table.row([age(status.last, now), format!("{:?}", spec.kind), spec.reason, object, spec.message]);
    }
    Ok(table)
}
