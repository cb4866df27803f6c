//! `setpoint edit`: an object in the user's editor. It is replaced only if nobody changed it meanwhile.

use std::path::Path;

use clap::Args;
use serde_json::Value;
use setpoint_client::WriteOptions;
use setpoint_types::object::Object;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::kinds::Kinds;
use crate::output::{document, yaml};
use crate::session::{Done, Session};
use crate::targets;

#[derive(Args)]
pub struct Edit {
    /// KIND NAME or KIND/NAME
    #[arg(required = true, value_name = "KIND NAME")]
    targets: Vec<String>,
}

const HEAD: &str =
    "# Change what you like, save, and leave the editor. Left as it is, or empty, nothing happens.\n";

impl Edit {
    pub async fn run(self, session: &mut Session) -> Done {
        let client = session.client()?;
        let target = targets::parse_one(&self.targets, &mut Kinds::new(client.clone())).await?;
        let name = target.name.as_deref().unwrap_or_default();
        let api = target.api(&client, &client.home());
        let before = api.get(name).await?;
        let mut shown = document(&before, false);
        // Not a person's to write; it would only be in the way.
        shown.as_object_mut().map(|fields| fields.remove("status"));
        let text = format!("{HEAD}{}", yaml(&shown)?);
        let folder = tempfile::Builder::new().prefix("setpoint-edit-").tempdir().map_err(unwritable)?;
        let file = folder.path().join(format!("{}-{name}.yaml", target.kind.singular));
        std::fs::write(&file, &text).map_err(unwritable)?;
        open(session, &file)?;
        let edited = std::fs::read_to_string(&file).map_err(unwritable)?;
        if edited == text || edited.lines().all(|line| line.trim().is_empty() || line.starts_with('#')) {
            session.say(format!("{} unchanged", target.label()))?;
            return Ok(Exit::Done);
        }
        match replace(&edited, &before) {
            Ok(object) => match api.update(&object, &WriteOptions::default()).await {
                Ok(_) => {
                    session.say(format!("{} edited", target.label()))?;
                    Ok(Exit::Done)
                }
                Err(error) => Err(kept(Failure::from(error), folder, &file)),
            },
            Err(failure) => Err(kept(failure, folder, &file)),
        }
    }
}

/// The object that the text says. It stays what it was: kind, name and namespace are not changed by editing.
fn replace(text: &str, before: &Object) -> Result<Object, Failure> {
    let edited: Value = serde_saphyr::from_str(text)
        .map_err(|error| Failure::usage(format!("this is not YAML: {}", first_line(&error.to_string()))))?;
    let edited: Object = serde_json::from_value(edited)
        .map_err(|error| Failure::usage(format!("this is no object any more: {error}")))?;
    if edited.key() != before.key() {
        return Err(Failure::usage(
            "kind, name and namespace cannot be edited; apply a file to make another object",
        ));
    }
    let mut object = Object { status: Value::Null, ..edited };
    object.metadata.uid = before.metadata.uid.clone();
    object.metadata.revision = before.metadata.revision;
    Ok(object)
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// What somebody has written is not lost.
fn kept(failure: Failure, folder: tempfile::TempDir, file: &Path) -> Failure {
    let _ = folder.keep();
    Failure::new(failure.exit(), format!("{failure}\n       Your text is in {}.", file.display()))
}

fn unwritable(error: std::io::Error) -> Failure {
    Failure::failed(format!("the text to edit cannot be kept in a file: {error}"))
}

/// As git does it: the variable is a command of the shell, with arguments if one likes.
fn open(session: &Session, file: &Path) -> Result<(), Failure> {
    let names = ["SETPOINT_EDITOR", "VISUAL", "EDITOR"];
    let editor = names.iter().find_map(|name| session.stage.variable(name)).unwrap_or("vi");
    let status = std::process::Command::new("sh")
        .arg("-c")
        .arg(format!("{editor} \"$1\""))
        .arg("sh")
        .arg(file)
        .status()
        .map_err(|error| {
            Failure::failed(format!("the editor {editor:?} cannot be started: {error}; set EDITOR"))
        })?;
    match status.success() {
        true => Ok(()),
        false => {
            Err(Failure::failed(format!("the editor {editor:?} ended with {status}; nothing was changed")))
        }
    }
}
