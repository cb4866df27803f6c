//! `setpoint wait`: until objects are as one needs them.
//!
//! - [`goal`]: what is waited for, and whether it is reached

mod goal;

use std::time::Duration;

use clap::Args;
use goal::Goal;
use setpoint_client::Scope;
use tokio::time::Instant;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::follow::{Ended, Seen, follow};
use crate::kinds::Kinds;
use crate::session::{Done, Session};
use crate::targets::{self, Selection, Target};

#[derive(Args)]
pub struct Wait {
    /// KIND NAME…, KIND/NAME…, or KIND with -l or --all
    #[arg(required = true, value_name = "KIND NAME")]
    targets: Vec<String>,
    /// create, delete, condition=NAME, condition=NAME=False, jsonpath={.a.b}=VALUE; several are waited for in turn
    #[arg(long = "for", required = true, value_name = "GOAL", value_parser = Goal::parse)]
    goals: Vec<Goal>,
    #[command(flatten)]
    selection: Selection,
    /// All objects of the kind, in the namespace
    #[arg(long)]
    all: bool,
    /// No longer than this for all of it; 0 looks once
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    timeout: Duration,
}

impl Wait {
    pub async fn run(self, session: &mut Session) -> Done {
        let client = session.client()?;
        let parsed = targets::parse(&self.targets, &mut Kinds::new(client.clone())).await?;
        let chosen = self.all || !self.selection.is_everything();
        if parsed.iter().any(|target| target.name.is_none()) && !chosen {
            return Err(Failure::usage("say which objects: KIND NAME, KIND/NAME, KIND with -l or --all"));
        }
        let mut waited: Vec<(Target, Scope)> = Vec::new();
        for target in parsed {
            match &target.name {
                Some(_) => waited.push((target, client.home())),
                None => {
                    let found =
                        targets::resolve(std::slice::from_ref(&target), &self.selection, &client).await?;
                    waited.extend(found.into_iter().map(|(kind, object)| {
                        let name = Some(object.metadata.name);
                        (Target { kind, name }, Scope::namespace(object.metadata.namespace))
                    }));
                }
            }
        }
        if waited.is_empty() {
            return Err(Failure::new(Exit::NotFound, "there is nothing that is selected to wait for"));
        }
        let deadline = Instant::now() + self.timeout;
        for (target, scope) in &waited {
            for goal in &self.goals {
                self.reach(session, target, scope, goal, deadline).await?;
            }
        }
        Ok(Exit::Done)
    }

    async fn reach(
        &self,
        session: &mut Session,
        target: &Target,
        scope: &Scope,
        goal: &Goal,
        deadline: Instant,
    ) -> Result<(), Failure> {
        let client = session.client()?;
        let api = target.api(&client, scope);
        let name = target.name.as_deref().unwrap_or_default();
        let label = target.label();
        let mut last = String::new();
        let mut uid = None;
        // A look has to have the time that a request takes.
        let once = self.timeout.is_zero();
        let until = if once { Instant::now() + session.settings()?.timeouts.call } else { deadline };
        let ended = follow(&api, name, Some(until), |seen| {
            let reached = match (&seen, goal) {
                (Seen::NotThere, Goal::Delete) => true,
                // Another one of the same name: the one that was waited for is gone.
                (Seen::There(object), Goal::Delete) => {
                    let first = uid.get_or_insert_with(|| object.metadata.uid.clone());
                    last = "it is still there".to_owned();
                    *first != object.metadata.uid
                }
                (Seen::NotThere, Goal::Create) => {
                    last = "it is not there".to_owned();
                    false
                }
                (Seen::NotThere, _) => {
                    return Err(Failure::new(
                        Exit::NotFound,
                        format!("there is no {label} to wait for; --for=create waits for it"),
                    ));
                }
                (Seen::There(object), goal) => match goal.reached(object) {
                    Ok(()) => true,
                    Err(why) => {
                        last = why;
                        false
                    }
                },
            };
            Ok((reached || once).then_some(reached))
        });
        match ended.await? {
            Ended::Enough(true) => {
                session.say(format!("{label} {}", goal.met()))?;
                session.flush()
            }
            Ended::Enough(false) | Ended::Late => {
                let waited = if once {
                    String::new()
                } else {
                    format!(" after {}", humantime::format_duration(self.timeout))
                };
                let text = format!("{label}{waited}: {last}; `setpoint describe {label}` shows more");
                Err(Failure::new(Exit::Timeout, text))
            }
        }
    }
}
