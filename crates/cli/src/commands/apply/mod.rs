//! `setpoint apply`: objects become as files say, by server-side apply.
//!
//! - [`prune`]: deleting what was applied before and is in the files no more

mod prune;

use clap::{Args, ValueEnum};
use setpoint_client::{Client, Error, Partial, Reason, Scope, WriteOptions};
use setpoint_types::object::Object;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::kinds::Kinds;
use crate::manifest::{self, Files, Manifest};
use crate::output::{Format, document, json, yaml};
use crate::session::{Done, MANAGER, Session};

#[derive(Args)]
pub struct Apply {
    #[command(flatten)]
    files: Files,
    /// Try it out: the server does everything but the writing
    #[arg(long, value_enum, default_value_t, num_args = 0..=1, default_missing_value = "server", require_equals = true)]
    dry_run: DryRun,
    /// Take fields that others decide and that the files have another value for
    #[arg(long)]
    force_conflicts: bool,
    /// Whose decision it is
    #[arg(long, value_name = "NAME", default_value = MANAGER)]
    field_manager: String,
    /// Delete what was applied by the same manager, is selected by -l, and is in the files no more
    #[arg(long, requires = "selector")]
    prune: bool,
    /// Only the objects of the files with these labels; with --prune, also of those that are deleted
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// How the result is shown: name, json or yaml show the objects instead of what became of them
    #[arg(short = 'o', long = "output", value_name = "FORM", value_parser = Format::parse)]
    output: Option<Format>,
    /// It is always done by the server; for those who are used to saying so
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    server_side: Option<bool>,
}

/// Whether anything is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DryRun {
    #[default]
    None,
    /// The files are read and checked, and nothing is sent
    Client,
    /// The server does everything but the writing
    Server,
}

impl DryRun {
    /// What comes after a result.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Client => " (dry run)",
            Self::Server => " (server dry run)",
        }
    }
}

/// What an apply came to.
struct Applied {
    object: Object,
    verb: &'static str,
}

impl Apply {
    pub async fn run(self, session: &mut Session) -> Done {
        let client = session.client()?;
        let mut kinds = Kinds::new(client.clone());
        let mut manifests = manifest::read(&self.files, &mut *session.stage.input, &mut kinds).await?;
        if let Some(selector) = &self.selector {
            let selector = setpoint_types::selector::LabelSelector::parse(selector)
                .map_err(|error| Failure::usage(format!("-l {selector:?} is not a selector: {error}")))?;
            manifests.retain(|manifest| selector.matches(&manifest.object.metadata.labels));
        }
        in_order(&mut manifests);
        let mut worst: Option<Exit> = None;
        for manifest in &manifests {
            match self.apply(session, &client, manifest).await {
                Ok(applied) => self.show(session, manifest, &applied)?,
                Err(failure) => {
                    // The others are applied nevertheless: whoever repeats the command only repeats what is missing.
                    session.note(format!("error: {failure}"));
                    worst.get_or_insert(failure.exit());
                }
            }
        }
        if self.prune && worst.is_none() {
            self.prune(session, &client, &mut kinds, &manifests).await?;
        }
        worst.map_or(Ok(Exit::Done), |exit| Err(Failure::said(exit)))
    }

    async fn apply(
        &self,
        session: &mut Session,
        client: &Client,
        manifest: &Manifest,
    ) -> Result<Applied, Failure> {
        let object = &manifest.object;
        if object.metadata.name.is_empty() {
            let text = format!(
                "{}: {} has no name; apply needs metadata.name, to find it again",
                manifest.source(),
                manifest.kind.name
            );
            return Err(Failure::usage(text));
        }
        let scope = scope_of(session, client, manifest)?;
        if self.dry_run == DryRun::Client {
            return Ok(Applied { object: object.clone(), verb: "checked" });
        }
        let partial = client.shaped::<Partial<()>>(&manifest.kind.name, scope.clone());
        let before = partial.find(&object.metadata.name).await.unwrap_or(None);
        let options = WriteOptions {
            manager: Some(self.field_manager.clone()),
            dry_run: self.dry_run == DryRun::Server,
            ..WriteOptions::default()
        };
        let api = client.dynamic(&manifest.kind.name, scope);
        let written = api.apply(object, self.force_conflicts, &options).await;
        let written = written.map_err(|error| explained(error, manifest))?;
        for warning in &written.warnings {
            session.note(format!("warning: {}: {warning}", manifest.label()));
        }
        for taken in &written.taken {
            session.note(format!("{}: took {} from {}", manifest.label(), taken.path, taken.manager));
        }
        let verb = match (before, written.changed) {
            (None, _) => "created",
            (Some(_), true) => "configured",
            (Some(_), false) => "unchanged",
        };
        Ok(Applied { object: written.object, verb })
    }

    fn show(&self, session: &mut Session, manifest: &Manifest, applied: &Applied) -> Result<(), Failure> {
        let object = || document(&applied.object, false);
        match &self.output {
            None | Some(Format::Table | Format::Wide) => {
                session.say(format!("{} {}{}", manifest.label(), applied.verb, self.dry_run.suffix()))
            }
            Some(Format::Name) => session.say(manifest.label()),
            Some(Format::Json) => session.write(&json(&object())),
            Some(Format::Yaml) => session.write(&format!("---\n{}", yaml(&object())?)),
            Some(Format::JsonPath(template)) => session.say(template.render(&object())),
        }
    }
}

/// Where the object of a file is: as it says itself, or in the namespace of the command.
pub fn scope_of(session: &Session, client: &Client, manifest: &Manifest) -> Result<Scope, Failure> {
    let said = &manifest.object.metadata.namespace;
    if !manifest.kind.namespaced {
        return match said.as_str() {
            "" => Ok(Scope::Cluster),
            _ => Err(Failure::usage(format!(
                "{}: {} belongs to the whole cluster; remove metadata.namespace",
                manifest.source(),
                manifest.label()
            ))),
        };
    }
    match &session.global.namespace {
        Some(asked) if !said.is_empty() && said != asked => Err(Failure::usage(format!(
            "{}: {} is for namespace {said}, and -n says {asked}; change one of them",
            manifest.source(),
            manifest.label()
        ))),
        _ if said.is_empty() => Ok(client.home()),
        _ => Ok(Scope::namespace(said)),
    }
}

/// What others need comes first: namespaces, and kinds.
fn in_order(manifests: &mut [Manifest]) {
    manifests.sort_by_key(|manifest| match manifest.kind.name.as_str() {
        "Namespace" => 0,
        "KindDefinition" => 1,
        _ => 2,
    });
}

/// What the server refused, with the lines it is about and the ways out.
pub fn explained(error: Error, manifest: &Manifest) -> Failure {
    let Some(refusal) = error.refusal() else { return error.into() };
    match refusal.reason {
        Reason::Invalid if !refusal.problems.is_empty() => {
            let told: Vec<String> = refusal.problems.iter().map(|problem| manifest.told(problem)).collect();
            Failure::usage(told.join("\n       "))
        }
        Reason::Conflict if !refusal.conflicts.is_empty() => {
            let mut text = format!("{}: others decide these fields:", manifest.label());
            for conflict in &refusal.conflicts {
                let line = format!(
                    "\n         {} is {} by decision of {}",
                    conflict.path, conflict.value, conflict.manager
                );
                text.push_str(&line);
            }
            text.push_str(
                "\n       Leave them out of the file, give them the same value, or take them with --force-conflicts.",
            );
            Failure::new(Exit::Conflict, text)
        }
        _ => error.into(),
    }
}
