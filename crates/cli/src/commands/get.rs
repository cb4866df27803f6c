//! `setpoint get`: objects, as a table or in another form; as they are, as they were, or as they change.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use setpoint_client::{Api, Dynamic, Error, ReadAt, Scope, WatchEvent, WatchOptions};
use setpoint_types::Revision;
use setpoint_types::object::Object;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::kinds::{KindEntry, Kinds};
use crate::moment::Moment;
use crate::output::Output;
use crate::output::objects::{Printer, Shown};
use crate::session::{Done, Session};
use crate::targets::{self, Selection, Target};

#[derive(Args)]
pub struct Get {
    /// KIND, KIND NAME…, KIND/NAME…; several kinds with commas; `all` for workloads and what they consist of
    #[arg(required = true, value_name = "KIND [NAME]")]
    targets: Vec<String>,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    output: Output,
    /// Go on with what changes
    #[arg(short = 'w', long, conflicts_with = "at")]
    watch: bool,
    /// Only what changes from now on
    #[arg(long, conflicts_with = "at")]
    watch_only: bool,
    /// While watching: JSON or YAML with what happened (ADDED, MODIFIED, DELETED)
    #[arg(long)]
    output_watch_events: bool,
    /// As it was at a revision (4711), at a time (2026-11-18T05:00:00Z) or so long ago (10m)
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    at: Option<Moment>,
    /// Say nothing of objects that are not there
    #[arg(long)]
    ignore_not_found: bool,
}

/// Between two tries to go on with a stream that broke.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

impl Get {
    pub async fn run(self, session: &mut Session) -> Done {
        let client = session.client()?;
        let targets = targets::parse(&self.targets, &mut Kinds::new(client.clone())).await?;
        self.check(&targets)?;
        let scope = self.selection.scope(&client);
        let namespaces = scope == Scope::AllNamespaces;
        let mut printer = Printer::new(self.output.clone(), namespaces, session.stage.terminal.colour);
        let (shown, revision, missing) = self.collect(session, &targets).await?;
        if !self.watch_only {
            let single = targets.len() == 1 && targets[0].name.is_some();
            if shown.is_empty() && printer.is_table() {
                if missing.is_none() && !self.ignore_not_found {
                    session.note(nothing(&targets, &scope, self.selection.is_everything()));
                }
            } else if !(shown.is_empty() && single) {
                let text = printer.list(shown, revision, single, session.now())?;
                session.write(&text)?;
            }
        }
        session.flush()?;
        if let Some(missing) = missing {
            return Err(missing);
        }
        if self.watch || self.watch_only {
            return self.follow(session, &targets[0], revision, printer).await;
        }
        Ok(Exit::Done)
    }

    fn check(&self, targets: &[Target]) -> Result<(), Failure> {
        if self.selection.all_namespaces
            && let Some(target) =
                targets.iter().find(|target| target.name.is_some() && target.kind.namespaced)
        {
            let label = target.label();
            return Err(Failure::usage(format!(
                "{label} is in one namespace: name it with -n instead of -A"
            )));
        }
        if !self.selection.is_everything() && targets.iter().any(|target| target.name.is_some()) {
            return Err(Failure::usage("names and selectors do not go together; leave one of them out"));
        }
        if (self.watch || self.watch_only) && targets.len() != 1 {
            return Err(Failure::usage("-w follows one kind, or one object; name one"));
        }
        Ok(())
    }

    /// What is asked for, of one revision per kind, and the first that is not there.
    async fn collect(
        &self,
        session: &mut Session,
        targets: &[Target],
    ) -> Result<(Vec<Shown>, Revision, Option<Failure>), Failure> {
        let client = session.client()?;
        let scope = self.selection.scope(&client);
        let at = self.at.map_or(ReadAt::Latest, |moment| moment.read_at(session.now()));
        let (mut shown, mut newest, mut missing) = (Vec::new(), Revision::default(), None);
        for target in targets {
            let api = target.api(&client, &scope);
            let revision = match &target.name {
                Some(name) => match api.get_at(name, at).await {
                    Ok((object, revision)) => {
                        shown.push((target.kind.clone(), object));
                        revision
                    }
                    Err(error) if error.is_not_found() && self.ignore_not_found => Revision::default(),
                    Err(error) if error.is_not_found() => {
                        let failure = targets::missing(error, target, &client, &scope).await;
                        if targets.len() == 1 {
                            return Err(failure);
                        }
                        session.note(format!("error: {failure}"));
                        missing = Some(Failure::said(Exit::NotFound));
                        Revision::default()
                    }
                    Err(error) => return Err(error.into()),
                },
                None => {
                    let (objects, revision) = api.list_all(&self.selection.list(at)).await?;
                    shown.extend(objects.into_iter().map(|object| (target.kind.clone(), object)));
                    revision
                }
            };
            newest = newest.max(revision);
        }
        Ok((shown, newest, missing))
    }

    /// Changes after a revision, until nobody reads any more.
    async fn follow(
        &self,
        session: &mut Session,
        target: &Target,
        mut after: Revision,
        mut printer: Printer,
    ) -> Done {
        let client = session.client()?;
        let api = target.api(&client, &self.selection.scope(&client));
        let fields = match &target.name {
            Some(name) => format!("metadata.name={name}"),
            None => self.selection.field_selector.clone(),
        };
        let labels = self.selection.selector.clone();
        let mut told = false;
        loop {
            let options = WatchOptions {
                labels: labels.clone(),
                fields: fields.clone(),
                after: Some(after),
                ..WatchOptions::default()
            };
            match self.stream(session, &api, &options, &target.kind, &mut after, &mut printer).await {
                Ok(()) => told = false,
                Err(Broken::Here(failure)) => return Err(failure),
                Err(Broken::There(error)) if error.is_expired() => {
                    let text = "what changed meanwhile is no longer kept; ask again for how it is now";
                    return Err(Failure::failed(text));
                }
                Err(Broken::There(error)) if error.is_transient() => {
                    if !told {
                        session.note("the connection was lost; going on as soon as a server answers");
                    }
                    told = true;
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
                Err(Broken::There(error)) => return Err(error.into()),
            }
        }
    }

    async fn stream(
        &self,
        session: &mut Session,
        api: &Api<Dynamic>,
        options: &WatchOptions,
        kind: &Arc<KindEntry>,
        after: &mut Revision,
        printer: &mut Printer,
    ) -> Result<(), Broken> {
        let mut watch = api.watch(options).await?;
        while let Some(events) = watch.next().await? {
            for event in events {
                let (what, object, revision) = match event {
                    WatchEvent::Added { object, revision, .. } => ("ADDED", object, revision),
                    WatchEvent::Modified { object, revision, .. } => ("MODIFIED", object, revision),
                    WatchEvent::Deleted { object, revision, .. } => ("DELETED", object, revision),
                    WatchEvent::Bookmark { revision, .. } => {
                        *after = revision.max(*after);
                        continue;
                    }
                };
                self.show(session, printer, kind, what, object)?;
                // Events of one revision come together, so nothing of it is still to come.
                *after = revision.max(*after);
            }
            session.flush()?;
        }
        Ok(())
    }

    fn show(
        &self,
        session: &mut Session,
        printer: &mut Printer,
        kind: &Arc<KindEntry>,
        what: &str,
        object: Object,
    ) -> Result<(), Failure> {
        let text = match self.output_watch_events {
            true => printer.event(what, &object)?,
            false => printer.change(&(kind.clone(), object), session.now())?,
        };
        session.write(&text)
    }
}

/// Why a stream of changes has ended.
enum Broken {
    There(Error),
    Here(Failure),
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self::There(error)
    }
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Self::Here(failure)
    }
}

/// There is nothing, and where nothing is.
fn nothing(targets: &[Target], scope: &Scope, everything: bool) -> String {
    let plurals: Vec<&str> = targets.iter().map(|target| target.kind.plural.as_str()).collect();
    let chosen = if everything { "" } else { " that are selected" };
    match scope {
        Scope::Namespace(namespace) if targets.iter().any(|target| target.kind.namespaced) => {
            format!("There are no {}{chosen} in namespace {namespace}.", plurals.join(" or "))
        }
        _ => format!("There are no {}{chosen}.", plurals.join(" or ")),
    }
}
