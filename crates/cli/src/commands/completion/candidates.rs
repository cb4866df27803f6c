//! What could come next on a command line: commands, options, kinds, and the names of objects as they are now.
//!
//! A shell waits for it, so nothing here takes long, and whatever fails is simply no help.

use std::time::Duration;

use clap::{Arg, Args, Command, CommandFactory as _};
use setpoint_client::{ListOptions, Partial, Scope};

use crate::command_line::CommandLine;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::kinds::Kinds;
use crate::session::{Done, Session};

#[derive(Args)]
pub struct Complete {
    /// The words so far; the last is the one to complete
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// A shell does not wait longer.
const PATIENCE: Duration = Duration::from_secs(2);
/// More names than these help nobody.
const NAMES_MAX: u32 = 500;

/// Where on a command line one is.
struct Spot {
    command: Command,
    /// The words of the command itself: no options, no names of commands.
    positional: Vec<String>,
    /// The option whose value comes next.
    awaiting: Option<Arg>,
    namespace: Option<String>,
}

impl Complete {
    pub async fn run(self, session: &mut Session) -> Done {
        let (partial, before) = match self.words.split_last() {
            Some((partial, before)) => (partial.clone(), before.to_vec()),
            None => (String::new(), Vec::new()),
        };
        let spot = Spot::find(&before);
        session.global.request_timeout = Some(PATIENCE);
        if spot.namespace.is_some() {
            session.global.namespace.clone_from(&spot.namespace);
        }
        let found = spot.candidates(session, &partial).await.unwrap_or_default();
        for (word, help) in found.into_iter().filter(|(word, _)| word.starts_with(&partial)) {
            session.say(format!("{word}\t{help}"))?;
        }
        Ok(Exit::Done)
    }
}

impl Spot {
    fn find(before: &[String]) -> Self {
        let mut spot =
            Self { command: CommandLine::command(), positional: Vec::new(), awaiting: None, namespace: None };
        let global: Vec<Arg> = spot.command.get_arguments().cloned().collect();
        for word in before {
            if let Some(arg) = spot.awaiting.take() {
                if arg.get_id() == "namespace" {
                    spot.namespace = Some(word.clone());
                }
            } else if word.starts_with('-') {
                let arg =
                    spot.command.get_arguments().chain(&global).find(|arg| is_called(arg, word)).cloned();
                spot.awaiting = arg.filter(|arg| arg.get_action().takes_values() && !word.contains('='));
            } else if let Some(command) = spot.command.find_subcommand(word).cloned() {
                spot.command = command;
            } else {
                spot.positional.push(word.clone());
            }
        }
        spot
    }

    async fn candidates(
        &self,
        session: &mut Session,
        partial: &str,
    ) -> Result<Vec<(String, String)>, Failure> {
        if let Some(arg) = &self.awaiting {
            return values(session, arg).await;
        }
        if partial.starts_with('-') {
            return Ok(self.options());
        }
        if self.command.has_subcommands() {
            let commands = self.command.get_subcommands().filter(|it| !it.is_hide_set());
            return Ok(commands.map(|it| (it.get_name().to_owned(), styled(it.get_about()))).collect());
        }
        self.arguments(session, partial).await
    }

    fn options(&self) -> Vec<(String, String)> {
        let whole = CommandLine::command();
        let all = self.command.get_arguments().chain(whole.get_arguments()).filter(|arg| !arg.is_hide_set());
        let mut options: Vec<(String, String)> =
            all.filter_map(|arg| Some((format!("--{}", arg.get_long()?), styled(arg.get_help())))).collect();
        options.sort();
        options.dedup_by(|a, b| a.0 == b.0);
        options
    }

    async fn arguments(
        &self,
        session: &mut Session,
        partial: &str,
    ) -> Result<Vec<(String, String)>, Failure> {
        let name = self.command.get_name();
        let takes = self.command.get_positionals().next();
        let Some(takes) = takes else { return Ok(Vec::new()) };
        let choices = possible(takes);
        if !choices.is_empty() && self.positional.is_empty() {
            return Ok(choices);
        }
        let what = takes
            .get_value_names()
            .and_then(|names| names.first())
            .map(|name| name.to_string())
            .unwrap_or_default();
        match (name, self.positional.len()) {
            ("use-context" | "delete-context" | "set-context", 0) => contexts(session),
            ("can-i", 1) => kinds(session).await,
            ("can-i", _) => Ok(Vec::new()),
            _ if what == "NODE" => names(session, "nodes").await,
            _ if !what.starts_with("KIND") => Ok(Vec::new()),
            (_, 0) => match partial.split_once('/') {
                Some((kind, _)) => Ok(prefixed(kind, names(session, kind).await?)),
                None => kinds(session).await,
            },
            _ => match self.positional[0].split_once('/') {
                Some((kind, _)) => {
                    let kind = partial.split_once('/').map_or(kind, |(kind, _)| kind);
                    Ok(prefixed(kind, names(session, kind).await?))
                }
                None => names(session, &self.positional[0]).await,
            },
        }
    }
}

fn is_called(arg: &Arg, word: &str) -> bool {
    let word = word.split('=').next().unwrap_or(word);
    let long = arg.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long));
    let short = arg.get_short().is_some_and(|short| word.len() == 2 && word.ends_with(short));
    long || short
}

/// The first line of a help text.
fn styled(help: Option<&clap::builder::StyledStr>) -> String {
    help.map(ToString::to_string).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

fn possible(arg: &Arg) -> Vec<(String, String)> {
    let values = arg.get_possible_values();
    values.into_iter().map(|it| (it.get_name().to_owned(), styled(it.get_help()))).collect()
}

async fn values(session: &mut Session, arg: &Arg) -> Result<Vec<(String, String)>, Failure> {
    let plain = |words: &[&str]| words.iter().map(|word| ((*word).to_owned(), String::new())).collect();
    Ok(match arg.get_id().as_str() {
        "namespace" => names(session, "namespaces").await?,
        "context" => contexts(session)?,
        "format" | "output" => plain(&["table", "wide", "json", "yaml", "name", "jsonpath="]),
        "goals" => plain(&["create", "delete", "condition=", "jsonpath="]),
        _ => possible(arg),
    })
}

fn contexts(session: &Session) -> Result<Vec<(String, String)>, Failure> {
    let file = session.config_file()?;
    Ok(file.contexts.into_iter().map(|it| (it.name, it.cluster)).collect())
}

async fn kinds(session: &mut Session) -> Result<Vec<(String, String)>, Failure> {
    let mut kinds = Kinds::new(session.client()?);
    let found = match kinds.all().await {
        Ok(found) => found
            .iter()
            .flat_map(|kind| {
                [(kind.plural.clone(), kind.name.clone()), (kind.singular.clone(), kind.name.clone())]
            })
            .collect(),
        // Without a server, what is built in.
        Err(_) => {
            let info = setpoint_types::registry::kinds().iter().map(|kind| &kind.info);
            info.flat_map(|it| {
                [(it.plural.to_owned(), it.name.to_owned()), (it.singular.to_owned(), it.name.to_owned())]
            })
            .collect()
        }
    };
    Ok(found)
}

async fn names(session: &mut Session, word: &str) -> Result<Vec<(String, String)>, Failure> {
    let client = session.client()?;
    let kind = Kinds::new(client.clone()).find(word.split(',').next().unwrap_or(word)).await?;
    let scope = if kind.namespaced { client.home() } else { Scope::Cluster };
    let options = ListOptions { page: NAMES_MAX, ..ListOptions::default() };
    let page = client.shaped::<Partial<()>>(&kind.name, scope).list(&options).await?;
    Ok(page.objects.into_iter().map(|metadata| (metadata.name, kind.name.clone())).collect())
}

fn prefixed(kind: &str, names: Vec<(String, String)>) -> Vec<(String, String)> {
    names.into_iter().map(|(name, help)| (format!("{kind}/{name}"), help)).collect()
}
