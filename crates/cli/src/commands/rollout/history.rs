//! `setpoint rollout history` and `undo`: the revisions of a workload's template, and going back to one of them.

use clap::Args;
use serde_json::{Value, json};
use setpoint_client::{Client, ListOptions, Patch, PatchOptions, Scope};
use setpoint_types::kinds::WorkloadStatus;
use setpoint_types::object::{Object, WriteOperation};

use super::{RESTARTED, find, workloads};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::age::age;
use crate::output::table::{Table, Widths};
use crate::output::{Format, document, json as to_json, yaml};
use crate::session::{Done, Session};

#[derive(Args)]
pub struct History {
    /// workload NAME or workload/NAME
    #[arg(required = true, value_name = "KIND NAME")]
    targets: Vec<String>,
    /// Show the template of this revision
    #[arg(long, value_name = "NUMBER")]
    revision: Option<u64>,
    /// table, json or yaml
    #[arg(short = 'o', long = "output", value_name = "FORM", value_parser = Format::parse, default_value = "table")]
    output: Format,
}

#[derive(Args)]
pub struct Undo {
    /// workload NAME or workload/NAME
    #[arg(required = true, value_name = "KIND NAME")]
    targets: Vec<String>,
    /// The revision to go back to; left out: the one before, or the last that was complete
    #[arg(long, value_name = "NUMBER")]
    to_revision: Option<u64>,
}

impl History {
    pub async fn run(self, session: &mut Session) -> Done {
        let client = session.client()?;
        for target in workloads(&self.targets, &client).await? {
            let (_, object) = find(&target, &client).await?;
            let sets = revisions(&client, &object).await?;
            if let Some(wanted) = self.revision {
                let set = sets.iter().find(|(number, _)| *number == wanted);
                let (_, set) = set.ok_or_else(|| absent(&target.label(), wanted, &sets))?;
                session.write(&yaml(&set.spec["template"])?)?;
                continue;
            }
            let whole = || {
                let items: Vec<Value> = sets.iter().map(|(_, set)| document(set, false)).collect();
                json!({"kind": "List", "items": items})
            };
            let text = match &self.output {
                Format::Json => to_json(&whole()),
                Format::Yaml => yaml(&whole())?,
                Format::JsonPath(template) => template.render(&whole()),
                _ => {
                    let table = table(&object, &sets, session.now());
                    format!(
                        "{}\n{}",
                        target.label(),
                        table.render(&table.widths(&Widths::default()), true, false)
                    )
                }
            };
            session.write(&text)?;
        }
        Ok(Exit::Done)
    }
}

fn table(object: &Object, sets: &[(u64, Object)], now: setpoint_types::Timestamp) -> Table {
    let status: WorkloadStatus = object.status().unwrap_or_default();
    let rollout = &status.rollout;
    let mut table = Table::new(["Revision", "Replicas", "State", "What", "Age"]);
    for (number, set) in sets {
        let state = match *number {
            it if it == rollout.failed_revision => "given up",
            it if it == rollout.revision => "current",
            it if it == rollout.stable_revision => "stable",
            _ => "",
        };
        let template = &set.spec["template"];
        let image = template["image"].as_str().map(str::to_owned);
        let command = || {
            let words = template["command"].as_array().into_iter().flatten().filter_map(Value::as_str);
            words.collect::<Vec<_>>().join(" ")
        };
        let mut what = image.unwrap_or_else(command);
        if let Some(restarted) = template["annotations"][RESTARTED].as_str() {
            what.push_str(&format!(" (restarted {restarted})"));
        }
        let replicas = set.spec["replicas"].as_u64().unwrap_or(0).to_string();
        table.row([number.to_string(), replicas, state.to_owned(), what, age(set.metadata.created, now)]);
    }
    table
}

/// The revisions that are kept, oldest first.
async fn revisions(client: &Client, workload: &Object) -> Result<Vec<(u64, Object)>, Failure> {
    let options =
        ListOptions { fields: format!("spec.workload={}", workload.metadata.name), ..ListOptions::default() };
    let api = client.dynamic("ReplicaSet", Scope::namespace(&workload.metadata.namespace));
    let (found, _) = api.list_all(&options).await?;
    let mut sets: Vec<(u64, Object)> =
        found.into_iter().map(|set| (set.spec["revision"].as_u64().unwrap_or(0), set)).collect();
    sets.sort_by_key(|(number, _)| *number);
    Ok(sets)
}

fn absent(label: &str, wanted: u64, sets: &[(u64, Object)]) -> Failure {
    let kept: Vec<String> = sets.iter().map(|(number, _)| number.to_string()).collect();
    let kept = if kept.is_empty() { "none".to_owned() } else { kept.join(", ") };
    Failure::new(Exit::NotFound, format!("{label} has no revision {wanted}; kept are: {kept}"))
}

impl Undo {
    pub async fn run(self, session: &mut Session) -> Done {
        let client = session.client()?;
        for target in workloads(&self.targets, &client).await? {
            let (api, object) = find(&target, &client).await?;
            let label = target.label();
            let sets = revisions(&client, &object).await?;
            let wanted = match self.to_revision {
                Some(wanted) => wanted,
                None => before(&object, &sets).ok_or_else(|| {
                    let text = format!("{label} has no earlier revision to go back to");
                    Failure::new(Exit::NotFound, text)
                })?,
            };
            let set = sets.iter().find(|(number, _)| *number == wanted);
            let (_, set) = set.ok_or_else(|| absent(&label, wanted, &sets))?;
            let template = set.spec["template"].clone();
            if template == object.spec["template"] {
                session.say(format!("{label} is at revision {wanted} already"))?;
                continue;
            }
            // Replaced as a whole: a merge would leave what the newer template has added.
            let patch = Patch::Json(json!([{"op": "replace", "path": "/spec/template", "value": template}]));
            // Only what was looked at is undone.
            let options =
                PatchOptions { revision: Some(object.metadata.revision), ..PatchOptions::default() };
            api.patch(&object.metadata.name, &patch, &options).await?;
            session.say(format!("{label} rolled back to revision {wanted}"))?;
            let is_applied =
                |it: &setpoint_types::object::ManagedFields| it.operation == WriteOperation::Apply;
            if object.metadata.managed_fields.iter().any(is_applied) {
                session.note(format!(
                    "{label} was applied from a file: change the file, too, before it is applied again"
                ));
            }
        }
        Ok(Exit::Done)
    }
}

/// What a rollback goes back to: after a failure to what was complete, else to the one before.
fn before(object: &Object, sets: &[(u64, Object)]) -> Option<u64> {
    let status: WorkloadStatus = object.status().unwrap_or_default();
    let rollout = &status.rollout;
    if rollout.failed_revision != 0 && rollout.stable_revision != 0 {
        return Some(rollout.stable_revision);
    }
    sets.iter().map(|(number, _)| *number).rfind(|number| *number < rollout.revision)
}
