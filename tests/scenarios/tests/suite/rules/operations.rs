//! F11: what carries an operation id is done once, however often it was sent.
//!
//! Leases, too: an Acquire that waits writes its place in the queue without the operation, and only the hold is that.

use std::collections::BTreeMap;

use setpoint_testkit::{Entry, State};
use setpoint_types::Revision;

use super::Rule;

#[derive(Default)]
pub struct OneRevision {
    /// At which revision, and what was told of it.
    seen: BTreeMap<String, (Revision, String)>,
}

impl Rule for OneRevision {
    fn name(&self) -> &'static str {
        "F11: an operation id is one revision"
    }

    fn see(&mut self, entry: &Entry, _: &State) -> Result<(), String> {
        for change in &entry.changes {
            let Some(operation) = &change.author.operation else { continue };
            let told = format!("{} by {}", change.key, change.author.principal);
            let first = self.seen.entry(operation.clone()).or_insert((entry.revision, told.clone()));
            if first.0 != entry.revision {
                return Err(format!("{operation} was done at {} ({}), and again ({told})", first.0, first.1));
            }
        }
        Ok(())
    }
}
