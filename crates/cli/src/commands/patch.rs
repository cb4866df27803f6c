//! `setpoint patch`: a part of an object, by a merge patch (RFC 7396) or a list of operations (RFC 6902).

use clap::{Args, ValueEnum};
use serde_json::Value;
use setpoint_client::{Patch, PatchOptions, WriteOptions};

use super::apply::DryRun;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::kinds::Kinds;
use crate::output::changed::Changed;
use crate::session::{Done, Session};
use crate::targets;

#[derive(Args)]
pub struct PatchCommand {
    /// KIND NAME or KIND/NAME
    #[arg(required = true, value_name = "KIND NAME")]
    targets: Vec<String>,
    /// The patch, as JSON or YAML
    #[arg(
        short = 'p',
        long,
        value_name = "TEXT",
        required_unless_present = "patch_file",
        conflicts_with = "patch_file"
    )]
    patch: Option<String>,
    /// A file with the patch
    #[arg(long, value_name = "FILE")]
    patch_file: Option<std::path::PathBuf>,
    /// merge: what is there replaces, null removes. json: a list of operations
    #[arg(long = "type", value_enum, default_value_t)]
    kind: Kind,
    /// `status` for the status in place of the rest
    #[arg(long, value_name = "NAME", value_parser = ["status"])]
    subresource: Option<String>,
    /// Try it out: the server does everything but the writing
    #[arg(long, value_enum, default_value_t, num_args = 0..=1, default_missing_value = "server", require_equals = true)]
    dry_run: DryRun,
    #[command(flatten)]
    output: Changed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Kind {
    #[default]
    Merge,
    Json,
}

impl PatchCommand {
    pub async fn run(self, session: &mut Session) -> Done {
        let text = match (&self.patch, &self.patch_file) {
            (Some(text), _) => text.clone(),
            (None, Some(path)) => std::fs::read_to_string(path)
                .map_err(|error| Failure::usage(format!("{} cannot be read: {error}", path.display())))?,
            (None, None) => return Err(Failure::usage("say what to change with -p or --patch-file")),
        };
        let value: Value = serde_saphyr::from_str(&text)
            .or_else(|_| serde_json::from_str(&text))
            .map_err(|error| Failure::usage(format!("the patch is neither JSON nor YAML: {error}")))?;
        let patch = match (self.kind, &value) {
            (Kind::Merge, Value::Object(_)) => Patch::Merge(value),
            (Kind::Json, Value::Array(_)) => Patch::Json(value),
            (Kind::Merge, Value::Array(_)) => {
                return Err(Failure::usage("a list of operations needs --type json"));
            }
            (Kind::Merge, _) => {
                return Err(Failure::usage("a merge patch is an object, as in {\"spec\": {…}}"));
            }
            (Kind::Json, _) => {
                return Err(Failure::usage("with --type json the patch is a list of operations"));
            }
        };
        let client = session.client()?;
        let targets = targets::parse_named(&self.targets, &mut Kinds::new(client.clone())).await?;
        for target in targets {
            let name = target.name.as_deref().unwrap_or_default();
            let write = WriteOptions { dry_run: self.dry_run != DryRun::None, ..WriteOptions::default() };
            let options =
                PatchOptions { status: self.subresource.is_some(), write, ..PatchOptions::default() };
            let written = target.api(&client, &client.home()).patch(name, &patch, &options).await?;
            for warning in &written.warnings {
                session.note(format!("warning: {}: {warning}", target.label()));
            }
            let no_change = if written.changed { "" } else { " (no change)" };
            let what = format!("patched{no_change}{}", self.dry_run.suffix());
            self.output.say(session, &target.label(), &what, &written.object)?;
        }
        Ok(Exit::Done)
    }
}
