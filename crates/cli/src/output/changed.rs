//! What a command says of an object that it has changed: a sentence, or the object as it is then.

use clap::Args;
use setpoint_types::object::Object;

use super::{Format, document, json, yaml};
use crate::failure::Failure;
use crate::session::Session;

/// What commands that change objects understand.
#[derive(Args, Clone, Debug, Default)]
pub struct Changed {
    /// The object as it is then, in place of a sentence: json, yaml, name or jsonpath=EXPRESSION
    #[arg(short = 'o', long = "output", value_name = "FORM", value_parser = Format::parse)]
    output: Option<Format>,
}

impl Changed {
    /// `what` is what became of it: `scaled`.
    pub fn say(
        &self,
        session: &mut Session,
        label: &str,
        what: &str,
        object: &Object,
    ) -> Result<(), Failure> {
        let object = || document(object, false);
        match &self.output {
            None | Some(Format::Table | Format::Wide) => session.say(format!("{label} {what}")),
            Some(Format::Name) => session.say(label),
            Some(Format::Json) => session.write(&json(&object())),
            Some(Format::Yaml) => session.write(&yaml(&object())?),
            Some(Format::JsonPath(template)) => session.say(template.render(&object())),
        }
    }
}
