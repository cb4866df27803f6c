//! What the loop shows of a key on the object itself: that it is stalled, or that two managers undo each other's work.
//!
//! Conditions under a manager of the loop's own, by server-side apply, so that they are in nobody's way; absent when all is well, and
//! written only when they change. Only for kinds whose status has conditions.

use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use setpoint_client::{Client, Error, ListOptions, Scope, WriteOptions};
use setpoint_types::kinds::KindDefinition;
use setpoint_types::object::{Condition, ConditionStatus, to_json};
use setpoint_types::{Generation, Object, Timestamp, registry};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::metrics::ControllerCounters;
use super::oscillation::Oscillation;
use super::recent::Recent;
use super::run::Run;
use super::verdict::Standing;
use crate::cache::Entry;
use crate::cache::Key;
use crate::conditions::{self, Statement};

const STALLED: &str = "Stalled";
const OSCILLATING: &str = "Oscillating";
/// The conditions that are the loop's.
pub(super) const TYPES: [&str; 2] = [STALLED, OSCILLATING];

/// Objects of which it is remembered what was applied.
const APPLIED_MAX: usize = 65_536;
/// What was applied and does not show is not applied again before this time: somebody removes it, or the cache does not keep it.
const REASSERT: Duration = Duration::from_secs(600);

/// Writes the conditions of one controller's objects.
pub(super) struct Notices {
    manager: String,
    enabled: bool,
    /// Whether the kind has conditions.
    fits: OnceCell<bool>,
    applied: Mutex<Recent<Key, Applied>>,
    counters: ControllerCounters,
}

#[derive(Clone)]
struct Applied {
    said: Vec<Said>,
    at: Instant,
}

/// What makes two conditions the same to a reader. A message may differ from run to run, and is not worth a write.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    kind: String,
    status: ConditionStatus,
    reason: String,
    generation: Generation,
}

impl From<&Condition> for Said {
    fn from(it: &Condition) -> Self {
        let (kind, reason) = (it.kind.clone(), it.reason.clone());
        // Those who disagree make a generation each time: that is nothing new.
        let generation = if kind == OSCILLATING { Generation::default() } else { it.observed_generation };
        Self { kind, status: it.status, reason, generation }
    }
}

impl Notices {
    pub fn new(manager: String, enabled: bool, counters: ControllerCounters) -> Self {
        let applied = Mutex::new(Recent::new(APPLIED_MAX));
        Self { manager, enabled, fits: OnceCell::new(), applied, counters }
    }

    /// Shows how the key stands, if that is another than what its object shows. False if it should be shown, and could not be, and it is
    /// worth another try.
    pub async fn show(
        &self,
        run: &Run,
        entry: Option<Entry>,
        standing: &Standing,
        oscillation: Option<&Oscillation>,
    ) -> bool {
        let Some(entry) = entry.filter(|_| self.enabled) else { return true };
        let Ok(parts) = entry.parts() else { return true };
        let nothing_to_say = oscillation.is_none() && !matches!(standing, Standing::Stalled { .. });
        if nothing_to_say && !names_ours(&parts.status) {
            return true;
        }
        let Ok(object) = parts.into_object() else { return true };
        let shown = shown(&object.status);
        let wanted = wanted(&shown, standing, oscillation, object.metadata.generation, run.now());
        let said: Vec<Said> = wanted.iter().map(Said::from).collect();
        if said == shown.iter().map(Said::from).collect::<Vec<_>>() || self.was_applied(run.key(), &said) {
            return true;
        }
        match self.say(run, object, &wanted).await {
            Ok(true) => {
                self.applied.lock().put(run.key().clone(), Applied { said, at: Instant::now() });
                true
            }
            Ok(false) => true,
            Err(error) if error.is_not_found() || error.is_fenced() => true,
            Err(error) => {
                self.counters.condition_failures.inc();
                tracing::debug!(%error, "the conditions were not written");
                !error.is_transient()
            }
        }
    }

    /// Writes the conditions, if the kind has them. What cannot be found out now is asked again the next time.
    async fn say(&self, run: &Run, object: Object, wanted: &[Condition]) -> Result<bool, Error> {
        let fits = self.fits.get_or_try_init(|| has_conditions(run.client(), &object.kind)).await?;
        if *fits {
            self.apply(run, object, wanted).await?;
        }
        Ok(*fits)
    }

    fn was_applied(&self, key: &Key, said: &[Said]) -> bool {
        let applied = self.applied.lock();
        applied.get(key).is_some_and(|applied| applied.said == said && applied.at.elapsed() < REASSERT)
    }

    async fn apply(&self, run: &Run, object: Object, wanted: &[Condition]) -> Result<(), Error> {
        let scope = match object.metadata.namespace.as_str() {
            "" => Scope::Cluster,
            namespace => Scope::namespace(namespace),
        };
        let mut said = Object::new(&object.kind, &object.metadata.namespace, &object.metadata.name);
        // Not another one of its name.
        said.metadata.uid = object.metadata.uid;
        said.status = if wanted.is_empty() { json!({}) } else { json!({"conditions": to_json(&wanted)}) };
        let options = WriteOptions { manager: Some(self.manager.clone()), ..WriteOptions::default() };
        let api = run.client().dynamic(&object.kind, scope);
        api.apply_status(&said, false, &options).await.map(drop)
    }
}

/// Whether one of the loop's conditions may be there. Most runs end with this look, so nothing is taken apart for it.
fn names_ours(status: &[u8]) -> bool {
    let text = String::from_utf8_lossy(status);
    TYPES.iter().any(|kind| text.contains(kind))
}

/// The loop's conditions that an object has.
fn shown(status: &Value) -> Vec<Condition> {
    let mut shown = conditions::read(status).unwrap_or_default();
    shown.retain(|condition| TYPES.contains(&condition.kind.as_str()));
    shown.sort_by(|one, other| one.kind.cmp(&other.kind));
    shown
}

/// Those it should have, in the order of their types. What is said already keeps its time and its words.
fn wanted(
    shown: &[Condition],
    standing: &Standing,
    oscillation: Option<&Oscillation>,
    generation: Generation,
    now: Timestamp,
) -> Vec<Condition> {
    let before = |kind: &str| shown.iter().find(|condition| condition.kind == kind);
    let oscillating = oscillation.map(|Oscillation { managers: [one, other] }| {
        let message = format!("{one} and {other} undo each other's changes");
        Statement::holds(OSCILLATING, "ManagersDisagree").message(message).at(generation, now)
    });
    let stalled = match standing {
        Standing::Well => None,
        Standing::Unchanged => before(STALLED).cloned(),
        Standing::Stalled { reason, message } => {
            Some(Statement::holds(STALLED, reason).message(message).at(generation, now))
        }
    };
    let keep_time = |condition: Condition| match before(&condition.kind) {
        Some(before) if Said::from(before) == Said::from(&condition) => before.clone(),
        Some(before) if before.status == condition.status => {
            Condition { last_transition: before.last_transition, ..condition }
        }
        _ => condition,
    };
    oscillating.into_iter().chain(stalled).map(keep_time).collect()
}

/// Whether the status of a kind has conditions, by its schema.
async fn has_conditions(client: &Client, kind: &str) -> Result<bool, Error> {
    const PLACE: &str = "/properties/status/properties/conditions";
    if let Some(known) = registry::kind(kind) {
        return Ok(known.schema().pointer(PLACE).is_some());
    }
    let (definitions, _) = client.api::<KindDefinition>().list_all(&ListOptions::default()).await?;
    let definition = definitions.into_iter().find(|definition| definition.spec.names.kind == kind);
    Ok(definition.is_some_and(|it| Value::Object(it.spec.schema).pointer(PLACE).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stalled(reason: &str) -> Standing {
        Standing::Stalled { reason: reason.into(), message: "m".into() }
    }

    fn said(shown: &[Condition], standing: &Standing, now: u64) -> Vec<Condition> {
        wanted(shown, standing, None, Generation(2), Timestamp(now))
    }

    #[test]
    fn a_well_key_shows_nothing_and_a_stalled_one_since_when() {
        let first = said(&[], &stalled("Failing"), 5);
        assert_eq!((first[0].kind.as_str(), first[0].last_transition), (STALLED, Timestamp(5)));
        assert_eq!(said(&first, &stalled("Failing"), 9), first);
        let other = said(&first, &stalled("BadSpec"), 9);
        assert_eq!((other[0].reason.as_str(), other[0].last_transition), ("BadSpec", Timestamp(5)));
        assert_eq!(said(&first, &Standing::Unchanged, 9), first);
        assert!(said(&first, &Standing::Well, 9).is_empty());
    }

    #[test]
    fn conditions_of_others_are_not_looked_at() {
        let ready = Statement::holds("Ready", "Serving").at(Generation(2), Timestamp(1));
        let both = [ready, said(&[], &stalled("Failing"), 5).remove(0)];
        let shown = shown(&json!({"conditions": to_json(&both)}));
        assert_eq!(shown.iter().map(|it| it.kind.as_str()).collect::<Vec<_>>(), [STALLED]);
        assert!(super::shown(&json!({"conditions": 3})).is_empty());
    }

    #[test]
    fn oscillating_names_both() {
        let oscillation = Oscillation { managers: ["a".into(), "b".into()] };
        let both = wanted(&[], &stalled("Failing"), Some(&oscillation), Generation(2), Timestamp(1));
        assert_eq!(both.iter().map(|it| it.kind.as_str()).collect::<Vec<_>>(), [OSCILLATING, STALLED]);
        assert_eq!(both[0].message, "a and b undo each other's changes");
    }
}
