//! `setpoint config`: the clusters, users and contexts of the config file.
//!
//! - [`entry`]: adding and changing entries

mod entry;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use setpoint_client::config::ConfigFile;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::near;
use crate::output::table::{Table, Widths};
use crate::output::{Format, json as to_json, yaml};
use crate::session::{Done, Session};

#[derive(Subcommand)]
pub enum Config {
    /// Show the contexts there are
    #[command(visible_alias = "contexts")]
    GetContexts(GetContexts),
    /// Show which context is used
    CurrentContext,
    /// Use another context from now on
    UseContext(Named),
    /// Add a context, or change one
    SetContext(entry::SetContext),
    /// Add a cluster, or change one
    SetCluster(entry::SetCluster),
    /// Add a user, or change one
    SetCredentials(entry::SetCredentials),
    /// Remove a context
    DeleteContext(Named),
    /// Show the file, without secrets
    View(View),
}

#[derive(Args)]
pub struct GetContexts {
    /// table, json, yaml or name
    #[arg(short = 'o', long = "output", value_name = "FORM", value_parser = Format::parse, default_value = "table")]
    output: Format,
    /// A table without its first line
    #[arg(long)]
    no_headers: bool,
}

#[derive(Args)]
pub struct Named {
    /// The context
    name: String,
}

#[derive(Args)]
pub struct View {
    /// With tokens and keys
    #[arg(long)]
    raw: bool,
    /// yaml or json
    #[arg(short = 'o', long = "output", value_name = "FORM", value_parser = Format::parse, default_value = "yaml")]
    output: Format,
}

impl Config {
    pub fn run(self, session: &mut Session) -> Done {
        match self {
            Self::GetContexts(command) => command.run(session),
            Self::CurrentContext => {
                let file = session.config_file()?;
                let current = session.global.context.clone().or(file.current_context);
                session.say(current.ok_or_else(no_current)?)?;
                Ok(Exit::Done)
            }
            Self::UseContext(Named { name }) => {
                let mut file = session.config_file()?;
                find(&file, &name)?;
                file.current_context = Some(name.clone());
                file.save(&session.config_path()?)?;
                session.say(format!("the context is {name} from now on"))?;
                Ok(Exit::Done)
            }
            Self::DeleteContext(Named { name }) => {
                let mut file = session.config_file()?;
                find(&file, &name)?;
                file.contexts.retain(|context| context.name != name);
                if file.current_context.as_deref() == Some(&name) {
                    file.current_context = None;
                    session.note(
                        "it was the current context; choose another with `setpoint config use-context NAME`",
                    );
                }
                file.save(&session.config_path()?)?;
                session.say(format!("context {name} deleted"))?;
                Ok(Exit::Done)
            }
            Self::SetContext(command) => command.run(session),
            Self::SetCluster(command) => command.run(session),
            Self::SetCredentials(command) => command.run(session),
            Self::View(command) => command.run(session),
        }
    }
}

fn no_current() -> Failure {
    Failure::new(Exit::NotFound, "no context is chosen; `setpoint config use-context NAME` chooses one")
}

/// The context has to be there.
fn find(file: &ConfigFile, name: &str) -> Result<(), Failure> {
    let mut names = file.contexts.iter().map(|context| context.name.as_str());
    if names.any(|it| it == name) {
        return Ok(());
    }
    let all: Vec<&str> = file.contexts.iter().map(|context| context.name.as_str()).collect();
    let text = match near::nearest(name, all.iter().copied()) {
        Some(near) => format!("there is no context {name:?}; did you mean {near}?"),
        None if all.is_empty() => {
            format!("there is no context {name:?}, and no other; `setpoint config set-context` adds one")
        }
        None => format!("there is no context {name:?}; there are: {}", all.join(", ")),
    };
    Err(Failure::new(Exit::NotFound, text))
}

impl GetContexts {
    fn run(self, session: &mut Session) -> Done {
        let file = session.config_file()?;
        let current = session.global.context.as_ref().or(file.current_context.as_ref());
        let items = || -> Vec<Value> {
            let item = |it: &setpoint_client::config::ContextEntry| {
                json!({"name": it.name, "cluster": it.cluster, "user": it.user, "namespace": it.namespace,
                    "current": Some(&it.name) == current})
            };
            file.contexts.iter().map(item).collect()
        };
        let text = match &self.output {
            Format::Json => to_json(&json!(items())),
            Format::Yaml => yaml(&json!(items()))?,
            Format::JsonPath(template) => template.render(&json!({"items": items()})),
            Format::Name => file.contexts.iter().map(|it| format!("{}\n", it.name)).collect(),
            Format::Table | Format::Wide => {
                let mut table = Table::new(["Current", "Name", "Cluster", "User", "Namespace"]);
                for it in &file.contexts {
                    let mark = if Some(&it.name) == current { "*" } else { "" };
                    let user = it.user.as_deref().unwrap_or("<anonymous>");
                    let namespace = it.namespace.as_deref().unwrap_or("default");
                    table.row([mark, &it.name, &it.cluster, user, namespace]);
                }
                if table.is_empty() {
                    session.note("There are no contexts: the node on this machine is used. `setpoint config set-cluster` adds a cluster.");
                    return Ok(Exit::Done);
                }
                table.render(
                    &table.widths(&Widths::default()),
                    !self.no_headers,
                    session.stage.terminal.colour,
                )
            }
        };
        session.write(&text)?;
        Ok(Exit::Done)
    }
}

impl View {
    fn run(self, session: &mut Session) -> Done {
        let file = session.config_file()?;
        let mut value = serde_json::to_value(&file).unwrap_or_default();
        if !self.raw {
            hide(&mut value);
        }
        let text = match &self.output {
            Format::Json => to_json(&value),
            Format::JsonPath(template) => template.render(&value),
            _ => yaml(&value)?,
        };
        session.write(&text)?;
        Ok(Exit::Done)
    }
}

/// What nobody who looks over the shoulder should see.
fn hide(value: &mut Value) {
    let users = value.get_mut("users").and_then(Value::as_array_mut).into_iter().flatten();
    for user in users.filter_map(Value::as_object_mut) {
        for secret in ["token", "client-key-data"] {
            if let Some(shown) = user.get_mut(secret) {
                *shown = "REDACTED".into();
            }
        }
    }
}
