//! F12: nobody decides by less than was seen when the same was last decided, not even after a crash or under another leader.

use std::collections::BTreeMap;

use setpoint_testkit::{Entry, State};
use setpoint_types::Revision;
use setpoint_types::kinds::DecisionSpec;

use super::Rule;

/// Who decided about what.
type Subject = (String, String, String);

#[derive(Default)]
pub struct NoTimeTravel {
    seen: BTreeMap<Subject, BTreeMap<String, Revision>>,
}

impl Rule for NoTimeTravel {
    fn name(&self) -> &'static str {
        "F12: no time travel"
    }

    fn see(&mut self, entry: &Entry, _: &State) -> Result<(), String> {
        for change in entry.changes.iter().filter(|it| it.key.kind == "Decision" && it.before.is_none()) {
            let Some(spec) = change.after.as_ref().map(|it| it.spec.clone()) else { continue };
            let Ok(spec) = serde_json::from_value::<DecisionSpec>(spec) else { continue };
            // What had no effect is told when there is time, in whatever order.
            if spec.operation.is_empty() {
                continue;
            }
            let subject = (spec.component.clone(), spec.object.kind.clone(), spec.object.uid.to_string());
            let before = self.seen.entry(subject).or_default();
            for (kind, revision) in &spec.cache_revisions {
                if *revision >= entry.revision {
                    return Err(format!("{} was decided by a {kind} of {revision}", change.key));
                }
                if before.get(kind).is_some_and(|it| it > revision) {
                    return Err(format!(
                        "{} was decided by a {kind} of {revision}, before by {:?}",
                        change.key, before
                    ));
                }
            }
            *before = spec.cache_revisions;
        }
        Ok(())
    }
}
