//! `setpoint auth`: who one is to the server, and what one may do.

use clap::{Args, Subcommand};
use serde_json::json;
use setpoint_client::Deed;

use crate::exit::Exit;
use crate::kinds::Kinds;
use crate::output::{Format, json as to_json, yaml};
use crate::session::{Done, Session};

#[derive(Subcommand)]
pub enum Auth {
    /// Show whether something is allowed; exit 1 if it is not
    CanI(CanI),
    /// Show who the server takes you for
    Whoami(Whoami),
}

#[derive(Args)]
pub struct CanI {
    /// get, list, watch, create, update, patch, apply, delete or transact
    verb: String,
    /// KIND, KIND/NAME, KIND/status, replicas/logs, replicas/exec; keys, ledgers or cluster for what is no object
    #[arg(value_name = "KIND")]
    target: String,
    /// One object
    name: Option<String>,
    /// In all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Say nothing; the exit code is the answer
    #[arg(short = 'q', long)]
    quiet: bool,
}

#[derive(Args)]
pub struct Whoami {
    /// table, json or yaml
    #[arg(short = 'o', long = "output", value_name = "FORM", value_parser = Format::parse, default_value = "table")]
    output: Format,
}

/// Of an object. One of such a name is asked about with KIND NAME.
const PARTS: [&str; 3] = ["status", "logs", "exec"];

/// Kinds of what is no object.
const NO_OBJECTS: [&str; 3] = ["keys", "ledgers", "cluster"];

impl Auth {
    pub async fn run(self, session: &mut Session) -> Done {
        match self {
            Self::CanI(command) => command.run(session).await,
            Self::Whoami(command) => command.run(session).await,
        }
    }
}

impl CanI {
    async fn run(self, session: &mut Session) -> Done {
        let client = session.client()?;
        let (word, part) =
            self.target.split_once('/').map_or((&*self.target, ""), |(word, part)| (word, part));
        let (part, named) = if PARTS.contains(&part) { (part.to_owned(), "") } else { (String::new(), part) };
        let name = self.name.unwrap_or_else(|| named.to_owned());
        let (kind, namespaced) = match word {
            "*" => ("*".to_owned(), true),
            word if NO_OBJECTS.contains(&word) => (word.to_owned(), false),
            word => {
                let kind = Kinds::new(client.clone()).find(word).await?;
                (kind.name.clone(), kind.namespaced)
            }
        };
        let namespace = match namespaced && !self.all_namespaces {
            true => client.home().name().to_owned(),
            false => String::new(),
        };
        let leave = client.can_i(&Deed { verb: self.verb, kind, namespace, name, part }).await?;
        if !self.quiet {
            session.say(if leave.allowed { "yes" } else { "no" })?;
            session.note(&leave.reason);
        }
        Ok(if leave.allowed { Exit::Done } else { Exit::No })
    }
}

impl Whoami {
    async fn run(self, session: &mut Session) -> Done {
        let who = session.client()?.who_am_i().await?;
        let value = json!({"principal": who.principal, "groups": who.groups, "enforced": who.enforced});
        match &self.output {
            Format::Json => session.write(&to_json(&value))?,
            Format::Yaml => session.write(&yaml(&value)?)?,
            Format::JsonPath(template) => session.say(template.render(&value))?,
            _ => {
                session.say(format!("Principal:  {}", who.principal))?;
                session.say(format!("Groups:     {}", who.groups.join(", ")))?;
                if !who.enforced {
                    session.note("Access control is off: nobody is asked who they are, and everybody may do everything.");
                }
            }
        }
        Ok(Exit::Done)
    }
}
