//! `setpoint delete`: objects go, and it is said what they wait for.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use setpoint_client::{
    Api, Blocker, DeleteOptions, Deleted, Dynamic, Propagation, ReadAt, Scope, WriteOptions,
};
use setpoint_types::Uid;
use setpoint_types::object::Object;
use tokio::time::{Instant, sleep};

use super::apply::{DryRun, scope_of};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::kinds::{KindEntry, Kinds};
use crate::manifest::{self, Files};
use crate::session::{Done, Session};
use crate::targets::{self, Selection};

#[derive(Args)]
pub struct Delete {
    /// KIND NAME…, KIND/NAME…, or KIND with -l or --all
    #[arg(value_name = "KIND NAME")]
    targets: Vec<String>,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    selection: Selection,
    /// All objects of the kind, in the namespace
    #[arg(long)]
    all: bool,
    /// What becomes of the parts of an object
    #[arg(long, value_enum, default_value_t)]
    cascade: Cascade,
    /// Wait until the objects are gone; --wait=false does not
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    wait: bool,
    /// Wait no longer than this; 0 waits for ever
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    timeout: Duration,
    /// Objects that are not there are no mistake
    #[arg(long)]
    ignore_not_found: bool,
    /// Try it out: the server does everything but the writing
    #[arg(long, value_enum, default_value_t, num_args = 0..=1, default_missing_value = "server", require_equals = true)]
    dry_run: DryRun,
    /// Only the names of what was deleted
    #[arg(short = 'o', long = "output", value_name = "FORM", value_parser = ["name"])]
    output: Option<String>,
}

/// What becomes of the parts of an object that is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Cascade {
    /// The object goes now, its parts afterwards
    #[default]
    Background,
    /// Its parts go first
    Foreground,
    /// Its parts stay
    Orphan,
}

/// An object to delete.
struct Doomed {
    api: Api<Dynamic>,
    kind: Arc<KindEntry>,
    name: String,
    /// Only this one, if it was read before.
    uid: Option<Uid>,
}

/// Between two looks at what a deletion waits for.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A deletion that waits for the same thing for so long may be stuck: it is said what can be done.
const STUCK_AFTER: Duration = Duration::from_secs(10);

impl Delete {
    pub async fn run(self, session: &mut Session) -> Done {
        let mut doomed = Vec::new();
        let mut worst = None;
        for it in self.doomed(session).await? {
            match self.begin(session, &it).await {
                Ok(true) => doomed.push(it),
                Ok(false) => {}
                Err(failure) => {
                    session.note(format!("error: {failure}"));
                    worst.get_or_insert(failure.exit());
                }
            }
        }
        session.flush()?;
        for it in &doomed {
            self.wait_for(session, it).await?;
        }
        worst.map_or(Ok(Exit::Done), |exit| Err(Failure::said(exit)))
    }

    /// What the command line names.
    async fn doomed(&self, session: &mut Session) -> Result<Vec<Doomed>, Failure> {
        let client = session.client()?;
        let mut kinds = Kinds::new(client.clone());
        let mut doomed = Vec::new();
        if !self.files.is_empty() {
            for it in manifest::read(&self.files, &mut *session.stage.input, &mut kinds).await? {
                let api = client.dynamic(&it.kind.name, scope_of(session, &client, &it)?);
                doomed.push(Doomed { api, name: it.object.metadata.name.clone(), kind: it.kind, uid: None });
            }
            // What was made last goes first, as parts go before what they are in.
            doomed.reverse();
            return Ok(doomed);
        }
        let targets = targets::parse(&self.targets, &mut kinds).await?;
        if targets.is_empty() {
            return Err(Failure::usage(
                "say what to delete: KIND NAME, KIND/NAME, KIND with -l or --all, or -f FILE",
            ));
        }
        let scope = self.selection.scope(&client);
        for target in targets {
            let api = target.api(&client, &scope);
            let kind = target.kind.clone();
            match target.name {
                Some(_) if scope == Scope::AllNamespaces && kind.namespaced => {
                    return Err(Failure::usage(
                        "an object is in one namespace: name it with -n instead of -A",
                    ));
                }
                Some(name) => doomed.push(Doomed { api, kind, name, uid: None }),
                None if self.all || !self.selection.is_everything() => {
                    let (objects, _) = api.list_all(&self.selection.list(ReadAt::Latest)).await?;
                    doomed.extend(objects.into_iter().map(|object| chosen(&api, &kind, object)));
                }
                None => {
                    let text = format!("which {}? Name them, select them with -l, or say --all", kind.plural);
                    return Err(Failure::usage(text));
                }
            }
        }
        if doomed.is_empty() {
            session.note("There is nothing to delete.");
        }
        Ok(doomed)
    }

    fn options(&self, doomed: &Doomed) -> DeleteOptions {
        let propagation = match self.cascade {
            Cascade::Background => Propagation::Background,
            Cascade::Foreground => Propagation::Foreground,
            Cascade::Orphan => Propagation::Orphan,
        };
        let write = WriteOptions { dry_run: self.dry_run != DryRun::None, ..WriteOptions::default() };
        DeleteOptions { uid: doomed.uid.clone(), propagation, write, ..DeleteOptions::default() }
    }

    /// Whether it has to be waited for.
    async fn begin(&self, session: &mut Session, doomed: &Doomed) -> Result<bool, Failure> {
        let deleted = match doomed.api.delete(&doomed.name, &self.options(doomed)).await {
            Err(error) if error.is_not_found() && self.ignore_not_found => return Ok(false),
            deleted => deleted?,
        };
        if deleted.gone || self.dry_run != DryRun::None {
            self.say_gone(session, doomed)?;
            return Ok(false);
        }
        if !self.wait {
            session.note(waits_for(doomed, &deleted));
            self.say_gone(session, doomed)?;
            return Ok(false);
        }
        Ok(true)
    }

    fn say_gone(&self, session: &mut Session, doomed: &Doomed) -> Result<(), Failure> {
        let label = doomed.label();
        match &self.output {
            Some(_) => session.say(label),
            None => session.say(format!("{label} deleted{}", self.dry_run.suffix())),
        }
    }

    /// Until it is gone, saying whenever what it waits for is something else.
    async fn wait_for(&self, session: &mut Session, doomed: &Doomed) -> Result<(), Failure> {
        let begun = Instant::now();
        let mut told: Option<(Vec<Blocker>, Instant)> = None;
        let mut advised = false;
        let mut options = self.options(doomed);
        loop {
            let deleted = match doomed.api.delete(&doomed.name, &options).await {
                // Gone, or another one of the same name.
                Err(error) if error.is_not_found() || error.is_conflict() => {
                    self.say_gone(session, doomed)?;
                    return session.flush();
                }
                deleted => deleted?,
            };
            if deleted.gone {
                self.say_gone(session, doomed)?;
                return session.flush();
            }
            options.uid = Some(deleted.object.metadata.uid.clone());
            match &told {
                Some((blockers, since)) if *blockers == deleted.blockers => {
                    if !advised && since.elapsed() >= STUCK_AFTER {
                        session.note(advice(doomed, &deleted));
                        advised = true;
                    }
                }
                _ => {
                    session.note(waits_for(doomed, &deleted));
                    told = Some((deleted.blockers.clone(), Instant::now()));
                }
            }
            if !self.timeout.is_zero() && begun.elapsed() >= self.timeout {
                let waited = humantime::format_duration(self.timeout);
                let text =
                    format!("{} is still there after {waited}. {}", doomed.label(), advice(doomed, &deleted));
                return Err(Failure::new(Exit::Timeout, text));
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

impl Doomed {
    fn label(&self) -> String {
        format!("{}/{}", self.kind.singular, self.name)
    }
}

fn chosen(api: &Api<Dynamic>, kind: &Arc<KindEntry>, object: Object) -> Doomed {
    let api = api.namespace(&object.metadata.namespace);
    Doomed { api, kind: kind.clone(), name: object.metadata.name, uid: Some(object.metadata.uid) }
}

fn waits_for(doomed: &Doomed, deleted: &Deleted<Object>) -> String {
    let blockers: Vec<String> = deleted.blockers.iter().map(blocker).collect();
    format!("{} is being deleted; it waits for {}", doomed.label(), blockers.join(" and "))
}

fn blocker(blocker: &Blocker) -> String {
    const SHOWN: usize = 5;
    let parts: Vec<String> = blocker.dependents.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = if blocker.dependents.len() > SHOWN { ", …" } else { "" };
    match parts.is_empty() {
        true => format!("the finalizer {}", blocker.finalizer),
        false => {
            format!("the finalizer {} and these parts to go: {}{more}", blocker.finalizer, parts.join(", "))
        }
    }
}

fn advice(doomed: &Doomed, deleted: &Deleted<Object>) -> String {
    let finalizers: Vec<&str> = deleted.blockers.iter().map(|it| it.finalizer.as_str()).collect();
    let namespace = match deleted.object.metadata.namespace.as_str() {
        "" => String::new(),
        namespace => format!(" -n {namespace}"),
    };
    format!(
        "Whoever put the finalizer {} there has to do its part: is it running? If it never will again, let the object go with \
         `setpoint patch {}{namespace} -p '{{\"metadata\":{{\"finalizers\":null}}}}'`.",
        finalizers.join(", "),
        doomed.label()
    )
}
