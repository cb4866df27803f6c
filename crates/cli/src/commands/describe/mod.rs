//! `setpoint describe`: all that is known of an object, put together for people.
//!
//! - [`sheet`]: names and values, indented
//! - [`related`]: what belongs to it: replicas of a workload or a node, decisions, events

mod related;
mod sheet;

use clap::Args;
use serde_json::Value;
use setpoint_types::Timestamp;
use setpoint_types::object::{Condition, Object};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::kinds::{KindEntry, Kinds};
use crate::output::age::{age, date};
use crate::output::table::Table;
use crate::session::{Done, Session};
use crate::targets::{self, Selection};
use sheet::Sheet;

#[derive(Args)]
pub struct Describe {
    /// KIND, KIND NAME…, KIND/NAME…
    #[arg(required = true, value_name = "KIND [NAME]")]
    targets: Vec<String>,
    #[command(flatten)]
    selection: Selection,
    /// With the events about it; --show-events=false leaves them out
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    show_events: bool,
}

impl Describe {
    pub async fn run(self, session: &mut Session) -> Done {
        let client = session.client()?;
        let targets = targets::parse(&self.targets, &mut Kinds::new(client.clone())).await?;
        let found = targets::resolve(&targets, &self.selection, &client).await?;
        if found.is_empty() {
            session.note("There is nothing to describe.");
        }
        let count = found.len();
        for (index, (kind, object)) in found.into_iter().enumerate() {
            let now = session.now();
            let mut sheet = Sheet::default();
            describe(&kind, &object, now, &mut sheet);
            related::describe(&client, &object, now, &mut sheet).await?;
            if self.show_events {
                related::events(&client, &object, now, &mut sheet).await?;
            }
            session.write(&sheet.render())?;
            if index + 1 < count {
                session.write("\n\n")?;
            }
        }
        Ok(Exit::Done)
    }
}

fn describe(kind: &KindEntry, object: &Object, now: Timestamp, sheet: &mut Sheet) {
    let metadata = &object.metadata;
    let when = |time: Timestamp| format!("{} ({} ago)", date(time), age(time, now));
    sheet.line("Name", &metadata.name);
    if !metadata.namespace.is_empty() {
        sheet.line("Namespace", &metadata.namespace);
    }
    sheet.line("Kind", &kind.name);
    sheet.pairs("Labels", &metadata.labels);
    sheet.pairs("Annotations", &metadata.annotations);
    sheet.line("Created", &when(metadata.created));
    if let Some(deleted) = metadata.deleted {
        sheet.line("Deleted", &when(deleted));
    }
    if !metadata.finalizers.is_empty() {
        sheet.line("Finalizers", &metadata.finalizers.join(", "));
    }
    if !metadata.owners.is_empty() {
        let owners =
            metadata.owners.iter().map(|owner| format!("{}/{}", owner.kind.to_lowercase(), owner.name));
        sheet.line("Part of", &owners.collect::<Vec<_>>().join(", "));
    }
    sheet.line("Generation", &metadata.generation.0.to_string());
    sheet.line("Revision", &metadata.revision.to_string());
    sheet.value("Spec", &object.spec, now);
    let mut status = object.status.clone();
    let conditions = status.as_object_mut().and_then(|fields| fields.remove("conditions"));
    sheet.value("Status", &status, now);
    if let Some(conditions) = conditions {
        sheet.table("Conditions", &conditions_table(&conditions, metadata.generation.0, now));
    }
}

/// Conditions of an older generation are marked: they may no longer hold.
fn conditions_table(conditions: &Value, generation: u64, now: Timestamp) -> Table {
    let conditions: Vec<Condition> = serde_json::from_value(conditions.clone()).unwrap_or_default();
    let mut table = Table::new(["Type", "Status", "Since", "Reason", "Message"]);
    for it in conditions {
        let status = match it.observed_generation.0 {
            0 => format!("{:?}", it.status),
            seen if seen < generation => format!("{:?} (of generation {seen})", it.status),
            _ => format!("{:?}", it.status),
        };
        table.row([it.kind, status, age(it.last_transition, now), it.reason, it.message]);
    }
    table
}

/// An object that cannot be described any further is described as it is.
pub(super) fn or_nothing<T: Default>(found: Result<T, setpoint_client::Error>) -> Result<T, Failure> {
    match found {
        Ok(found) => Ok(found),
        // Who may see the object may not see what belongs to it.
        Err(error) if matches!(error.reason(), Some(setpoint_client::Reason::Forbidden)) => Ok(T::default()),
        Err(error) => Err(error.into()),
    }
}
