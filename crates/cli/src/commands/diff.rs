//! `setpoint diff`: what an apply would change. Exit 0 if nothing, 1 if something.

use clap::Args;
use serde_json::Value;
use setpoint_client::WriteOptions;
use setpoint_types::object::Object;

use super::apply::{explained, scope_of};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::kinds::Kinds;
use crate::manifest::{self, Files};
use crate::output::difference::unified;
use crate::output::{document, yaml};
use crate::session::{Done, MANAGER, Session};

#[derive(Args)]
pub struct Diff {
    #[command(flatten)]
    files: Files,
    /// As if fields that others decide were taken
    #[arg(long)]
    force_conflicts: bool,
    /// Whose decision it would be
    #[arg(long, value_name = "NAME", default_value = MANAGER)]
    field_manager: String,
}

impl Diff {
    pub async fn run(self, session: &mut Session) -> Done {
        let client = session.client()?;
        let mut kinds = Kinds::new(client.clone());
        let mut differs = false;
        for manifest in manifest::read(&self.files, &mut *session.stage.input, &mut kinds).await? {
            let api = client.dynamic(&manifest.kind.name, scope_of(session, &client, &manifest)?);
            let before = api.find(&manifest.object.metadata.name).await?;
            let options = WriteOptions {
                manager: Some(self.field_manager.clone()),
                dry_run: true,
                ..WriteOptions::default()
            };
            let after = api.apply(&manifest.object, self.force_conflicts, &options).await;
            let after = after.map_err(|error| explained(error, &manifest))?.object;
            let (before, after) = (before.as_ref().map(text).transpose()?.unwrap_or_default(), text(&after)?);
            let name = manifest.label();
            let shown = unified(&format!("{name} (now)"), &format!("{name} (applied)"), &before, &after);
            differs |= !shown.is_empty();
            session.write(&match session.stage.terminal.colour {
                true => crate::output::difference::coloured(&shown),
                false => shown,
            })?;
        }
        Ok(if differs { Exit::No } else { Exit::Done })
    }
}

/// Without what changes with every write, and what an apply does not touch.
fn text(object: &Object) -> Result<String, Failure> {
    let mut document = document(object, false);
    if let Some(fields) = document.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["revision", "generation", "uid", "createdMs"] {
            metadata.remove(field);
        }
    }
    yaml(&document)
}
