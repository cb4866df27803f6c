//! `setpoint rollout`: how a workload goes from one revision of its template to the next.
//!
//! - [`status`]: how far it has come
//! - [`history`]: the revisions there are, and going back to one of them

mod history;
mod status;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use setpoint_client::{Api, Client, Dynamic, Patch, PatchOptions};
use setpoint_types::object::Object;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::kinds::Kinds;
use crate::output::age::date;
use crate::session::{Done, Session};
use crate::targets::{self, Target};

#[derive(Subcommand)]
pub enum Rollout {
    /// Show how far a rollout has come, and wait for its end
    Status(status::Status),
    /// Show the revisions there are
    History(history::History),
    /// Go back to an earlier revision
    Undo(history::Undo),
    /// Hold a rollout where it is
    Pause(Switch),
    /// Let a held rollout go on
    Resume(Switch),
    /// Replace all replicas, as if the template had changed
    Restart(Switch),
}

#[derive(Args)]
pub struct Switch {
    /// workload NAME or workload/NAME
    #[arg(required = true, value_name = "KIND NAME")]
    targets: Vec<String>,
}

/// Says in a template when a restart was asked for; another time is another revision.
const RESTARTED: &str = "setpoint/restartedAt";

impl Rollout {
    pub async fn run(self, session: &mut Session) -> Done {
        match self {
            Self::Status(command) => command.run(session).await,
            Self::History(command) => command.run(session).await,
            Self::Undo(command) => command.run(session).await,
            Self::Pause(switch) => switch.paused(session, true).await,
            Self::Resume(switch) => switch.paused(session, false).await,
            Self::Restart(switch) => switch.restart(session).await,
        }
    }
}

impl Switch {
    async fn paused(&self, session: &mut Session, paused: bool) -> Done {
        let client = session.client()?;
        for target in workloads(&self.targets, &client).await? {
            let (api, object) = find(&target, &client).await?;
            let is = object.spec.pointer("/rollout/paused").and_then(Value::as_bool).unwrap_or(false);
            let verb = if paused { "paused" } else { "resumed" };
            if is == paused {
                let state = if paused { "paused already" } else { "not paused" };
                session.say(format!("{} is {state}", target.label()))?;
                continue;
            }
            let patch = json!({"spec": {"rollout": {"paused": paused}}});
            change(&api, &object, patch).await?;
            session.say(format!("{} {verb}", target.label()))?;
        }
        Ok(Exit::Done)
    }

    async fn restart(&self, session: &mut Session) -> Done {
        let client = session.client()?;
        for target in workloads(&self.targets, &client).await? {
            let (api, object) = find(&target, &client).await?;
            if object.spec.pointer("/rollout/paused").and_then(Value::as_bool).unwrap_or(false) {
                let text = format!("{0} is paused; first `setpoint rollout resume {0}`", target.label());
                return Err(Failure::new(Exit::Conflict, text));
            }
            let time = date(session.now());
            let patch = json!({"spec": {"template": {"annotations": {RESTARTED: time}}}});
            change(&api, &object, patch).await?;
            session.say(format!("{} restarted", target.label()))?;
        }
        Ok(Exit::Done)
    }
}

/// The workloads that words name. What is no workload has no rollout.
async fn workloads(words: &[String], client: &Client) -> Result<Vec<Target>, Failure> {
    let targets = targets::parse_named(words, &mut Kinds::new(client.clone())).await?;
    match targets.iter().find(|target| target.kind.name != "Workload") {
        Some(target) => {
            Err(Failure::usage(format!("a {} has no rollout; name a workload", target.kind.name)))
        }
        None => Ok(targets),
    }
}

async fn find(target: &Target, client: &Client) -> Result<(Api<Dynamic>, Object), Failure> {
    let api = target.api(client, &client.home());
    let object = api.get(target.name.as_deref().unwrap_or_default()).await?;
    if object.spec.get("batch").is_some_and(|batch| !batch.is_null()) {
        let text = format!(
            "{0} is a batch, which is not rolled out; `setpoint describe {0}` shows how far it is",
            target.label()
        );
        return Err(Failure::usage(text));
    }
    Ok((api, object))
}

async fn change(api: &Api<Dynamic>, object: &Object, patch: Value) -> Result<(), Failure> {
    let options = PatchOptions { uid: Some(object.metadata.uid.clone()), ..PatchOptions::default() };
    api.patch(&object.metadata.name, &Patch::Merge(patch), &options).await?;
    Ok(())
}
