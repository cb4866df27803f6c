//! `setpoint label` and `setpoint annotate`: labels and annotations, added, changed and removed.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Map, Value, json};
use setpoint_client::{Patch, PatchOptions, Scope, WriteOptions};
use setpoint_types::object::Object;

use super::apply::DryRun;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::kinds::Kinds;
use crate::output::changed::Changed;
use crate::session::{Done, Session};
use crate::targets::{self, Selection};

#[derive(Args)]
pub struct Mark {
    /// KIND NAME… or KIND/NAME…, then KEY=VALUE to set and KEY- to remove
    #[arg(required = true, value_name = "KIND NAME KEY=VALUE")]
    words: Vec<String>,
    #[command(flatten)]
    selection: Selection,
    /// All objects of the kind, in the namespace
    #[arg(long)]
    all: bool,
    /// Also if the key is there with another value
    #[arg(long)]
    overwrite: bool,
    /// Show what there is
    #[arg(long)]
    list: bool,
    /// Try it out: the server does everything but the writing
    #[arg(long, value_enum, default_value_t, num_args = 0..=1, default_missing_value = "server", require_equals = true)]
    dry_run: DryRun,
    #[command(flatten)]
    output: Changed,
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    Labels,
    Annotations,
}

impl Marks {
    fn field(self) -> &'static str {
        match self {
            Self::Labels => "labels",
            Self::Annotations => "annotations",
        }
    }

    fn done(self) -> &'static str {
        match self {
            Self::Labels => "labeled",
            Self::Annotations => "annotated",
        }
    }

    fn of(self, object: &Object) -> &BTreeMap<String, String> {
        match self {
            Self::Labels => &object.metadata.labels,
            Self::Annotations => &object.metadata.annotations,
        }
    }
}

impl Mark {
    pub async fn run(self, session: &mut Session, marks: Marks) -> Done {
        let client = session.client()?;
        let (changes, names): (Vec<&String>, Vec<&String>) =
            self.words.iter().partition(|word| word.contains('=') || word.ends_with('-'));
        let changes = parse(&changes)?;
        if changes.is_empty() && !self.list {
            return Err(Failure::usage(
                "say what to change: KEY=VALUE sets, KEY- removes; --list shows what there is",
            ));
        }
        let names: Vec<String> = names.into_iter().cloned().collect();
        let targets = targets::parse(&names, &mut Kinds::new(client.clone())).await?;
        let chosen = self.all || !self.selection.is_everything();
        if targets.is_empty() || (targets.iter().any(|target| target.name.is_none()) && !chosen) {
            return Err(Failure::usage("say which objects: KIND NAME, KIND/NAME, KIND with -l or --all"));
        }
        for (kind, object) in targets::resolve(&targets, &self.selection, &client).await? {
            let label = targets::label(&kind, &object);
            if self.list {
                session.say(format!("{label}:"))?;
                for (key, value) in marks.of(&object) {
                    session.say(format!("  {key}={value}"))?;
                }
                continue;
            }
            let Some(patch) = self.patch(marks, &label, &object, &changes)? else {
                let what = format!("not {}: it is so already", marks.done());
                self.output.say(session, &label, &what, &object)?;
                continue;
            };
            let write = WriteOptions { dry_run: self.dry_run != DryRun::None, ..WriteOptions::default() };
            let options = PatchOptions { write, ..PatchOptions::default() };
            let api = client.dynamic(&kind.name, kind.scope(&Scope::namespace(&object.metadata.namespace)));
            let written = api.patch(&object.metadata.name, &patch, &options).await?;
            let what = format!("{}{}", marks.done(), self.dry_run.suffix());
            self.output.say(session, &label, &what, &written.object)?;
        }
        Ok(Exit::Done)
    }

    /// What has to change of an object; nothing if it is as asked.
    fn patch(
        &self,
        marks: Marks,
        label: &str,
        object: &Object,
        changes: &[(String, Option<String>)],
    ) -> Result<Option<Patch>, Failure> {
        let present = marks.of(object);
        let mut fields = Map::new();
        for (key, value) in changes {
            match (present.get(key), value) {
                (Some(old), Some(new)) if old != new && !self.overwrite => {
                    let text = format!("{label} has {key}={old} already; --overwrite changes it to {new}");
                    return Err(Failure::new(Exit::Conflict, text));
                }
                (Some(old), Some(new)) if old == new => {}
                (None, None) => {}
                (_, value) => {
                    fields.insert(key.clone(), value.clone().map_or(Value::Null, Value::String));
                }
            }
        }
        Ok((!fields.is_empty()).then(|| Patch::Merge(json!({"metadata": {marks.field(): fields}}))))
    }
}

/// Keys with what they are to be; none: removed.
fn parse(words: &[&String]) -> Result<Vec<(String, Option<String>)>, Failure> {
    let mut changes: Vec<(String, Option<String>)> = Vec::new();
    for word in words {
        let change = match word.split_once('=') {
            Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
            None => (word.trim_end_matches('-').to_owned(), None),
        };
        if changes.iter().any(|(key, _)| *key == change.0) {
            return Err(Failure::usage(format!("{:?} is there twice; what is it to be?", change.0)));
        }
        changes.push(change);
    }
    Ok(changes)
}
