//! `setpoint scale`: how many replicas.

use clap::Args;
use serde_json::{Value, json};
use setpoint_client::{Patch, PatchOptions, WriteOptions};

use super::apply::DryRun;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::kinds::Kinds;
use crate::output::changed::Changed;
use crate::session::{Done, Session};
use crate::targets::{self, Selection};

#[derive(Args)]
pub struct Scale {
    /// KIND NAME…, KIND/NAME…, or KIND with -l
    #[arg(required = true, value_name = "KIND NAME")]
    targets: Vec<String>,
    /// How many there are to be
    #[arg(long, value_name = "COUNT")]
    replicas: u32,
    /// Only if so many are asked for now
    #[arg(long, value_name = "COUNT")]
    current_replicas: Option<u64>,
    #[command(flatten)]
    selection: Selection,
    /// Try it out: the server does everything but the writing
    #[arg(long, value_enum, default_value_t, num_args = 0..=1, default_missing_value = "server", require_equals = true)]
    dry_run: DryRun,
    #[command(flatten)]
    output: Changed,
}

impl Scale {
    pub async fn run(self, session: &mut Session) -> Done {
        let client = session.client()?;
        let targets = targets::parse(&self.targets, &mut Kinds::new(client.clone())).await?;
        if let Some(target) = targets.iter().find(|target| target.kind.schema.pointer(REPLICAS).is_none()) {
            return Err(Failure::usage(format!(
                "a {} has no number of replicas to change",
                target.kind.name
            )));
        }
        if targets.iter().any(|target| target.name.is_none()) && self.selection.is_everything() {
            return Err(Failure::usage("say which: KIND NAME, KIND/NAME, or KIND with -l"));
        }
        for (kind, object) in targets::resolve(&targets, &self.selection, &client).await? {
            let label = targets::label(&kind, &object);
            let asked = object.spec.get("replicas").and_then(Value::as_u64).unwrap_or(1);
            if let Some(expected) = self.current_replicas.filter(|expected| *expected != asked) {
                let text = format!("{label} is at {asked} replicas, not at {expected}; nothing was changed");
                return Err(Failure::new(Exit::Conflict, text));
            }
            let write = WriteOptions { dry_run: self.dry_run != DryRun::None, ..WriteOptions::default() };
            // Whoever names the number there is decides by what was seen.
            let revision = self.current_replicas.map(|_| object.metadata.revision);
            let options = PatchOptions { revision, write, ..PatchOptions::default() };
            let patch = Patch::Merge(json!({"spec": {"replicas": self.replicas}}));
            let api = client.dynamic(&kind.name, kind.scope(&scope(&object.metadata.namespace)));
            let written = api.patch(&object.metadata.name, &patch, &options).await?;
            let what = format!("scaled{}", self.dry_run.suffix());
            self.output.say(session, &label, &what, &written.object)?;
        }
        Ok(Exit::Done)
    }
}

const REPLICAS: &str = "/properties/spec/properties/replicas";

fn scope(namespace: &str) -> setpoint_client::Scope {
    setpoint_client::Scope::namespace(namespace)
}
