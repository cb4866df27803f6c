//! F11: what carries an operation id is done once, however often it was sent.

use std::collections::BTreeMap;

use setpoint_testkit::{Entry, State};
use setpoint_types::Revision;

use super::Rule;

#[derive(Default)]
pub struct OneRevision {
    seen: BTreeMap<String, Revision>,
}

impl Rule for OneRevision {
    fn name(&self) -> &'static str {
        "F11: an operation id is one revision"
    }

    fn see(&mut self, entry: &Entry, _: &State) -> Result<(), String> {
        for operation in entry.changes.iter().filter_map(|it| it.author.operation.as_ref()) {
            let first = *self.seen.entry(operation.clone()).or_insert(entry.revision);
            if first != entry.revision {
                return Err(format!("{operation} was done at {first}, and again"));
            }
        }
        Ok(())
    }
}
