//! The garbage collector: parts go after their owners, namespaces are emptied before they go, and records do not pile up.
//!
//! | file | what |
//! |---|---|
//! | `owner` | an owner as a key of the queue |
//! | `kinds` | which kinds there are, and what caches know of them |
//! | `observe`, `plan`, `execute` | the parts of one owner: what is found, what follows (pure), doing it |
//! | `namespace` | emptying one, its records, and users' kinds |
//! | `retention` | which records are too many; pure |
//!
//! What it owns: nothing. It deletes what the rules of owners say, and takes `setpoint/foreground` and `setpoint/orphan` away. Not
//! here: marking what is deleted (the server), and giving back what a binding has reserved (`binding`).

mod execute;
mod kinds;
mod namespace;
mod observe;
mod owner;
mod plan;
mod retention;

use kinds::Kinds;
pub use owner::OwnerId;
pub use plan::{Disowned, Doomed, Observed, Order, Owner, Part, Plan, plan};
pub use retention::Retention;
use serde::{Deserialize, Serialize};
use setpoint_runtime::cache::{Cache, Delta, Entry, Key};
use setpoint_runtime::informer::Selection;
use setpoint_runtime::{Action, Controller, Manager, ReconcileError, Reconciler, Run};
use setpoint_types::Metadata;
use setpoint_types::kinds::Namespace;

use crate::registry::BuildError;
use crate::settings::Settings;

/// Of its lease and its fields.
pub const NAME: &str = "garbage-collector";

/// Knobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GarbageSettings {
    /// Between two looks at the records of a namespace, and at users' kinds in it.
    pub interval_seconds: u64,
    pub events: Retention,
    pub decisions: Retention,
}

impl Default for GarbageSettings {
    /// A day tells what happened yesterday; ten thousand are a few megabytes, and a list of seconds.
    fn default() -> Self {
        let day = 24 * 60 * 60;
        Self {
            interval_seconds: 120,
            events: Retention { age_seconds: day, count_max: 10_000 },
            decisions: Retention { age_seconds: day, count_max: 10_000 },
        }
    }
}

/// Deletes what nobody owns.
pub struct Collector {
    kinds: Kinds,
    namespaces: Cache<Namespace>,
    settings: GarbageSettings,
}

/// What was found: the parts of an owner, or a namespace.
#[derive(Clone, Debug)]
pub enum Found {
    Parts(Observed),
    Namespace(Box<Metadata>),
}

/// What is to be done about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Todo {
    Parts(Plan),
    /// What is in it is listed where it is deleted.
    LookAfter,
}

/// What it looks at, and what wakes which key.
pub(crate) fn build(manager: &Manager, settings: &Settings) -> Result<Controller, BuildError> {
    if settings.garbage_collector.interval_seconds == 0 {
        return Err(BuildError { problem: "interval_seconds of garbage_collector must not be 0".to_owned() });
    }
    let namespaces = manager.informers().cache::<Namespace>(Selection::everywhere());
    let kinds = Kinds::new(manager.informers());
    let collector = Collector {
        kinds: kinds.clone(),
        namespaces: namespaces.clone(),
        settings: settings.garbage_collector,
    };
    let mut controller = Controller::new(NAME, collector).for_kind(&namespaces).concurrency(4);
    for (kind, cache) in kinds.built_in.iter() {
        let (kinds, kind) = (kinds.clone(), *kind);
        controller = controller.watches(cache, move |delta, wake| concerned(&kinds, kind, delta, wake));
    }
    Ok(controller)
}

/// The owners a change is about: the object itself when it goes, and those that it names and that are not there or go, too.
fn concerned(kinds: &Kinds, kind: &str, delta: &Delta, wake: &mut dyn FnMut(Key)) {
    let metadata = |entry: Option<&Entry>| entry.and_then(|entry| entry.metadata().ok());
    let itself = match &delta.after {
        None => metadata(delta.before.as_ref()),
        after => metadata(after.as_ref()).filter(|metadata| Order::of(metadata).is_some()),
    };
    if let Some(metadata) = itself {
        let Metadata { namespace, name, uid, .. } = metadata;
        wake(OwnerId { kind: kind.to_owned(), namespace, name, uid }.key());
    }
    for part in delta.states().filter_map(|entry| entry.metadata().ok()) {
        for reference in &part.owners {
            let owner = OwnerId::named_by(reference, &part.namespace, kinds.is_namespaced(&reference.kind));
            let stays = kinds.cached(&owner).is_some_and(|metadata| Order::of(&metadata).is_none());
            if !stays {
                wake(owner.key());
            }
        }
    }
}

impl Reconciler for Collector {
    type Observed = Found;
    type Plan = Todo;

    async fn observe(&self, run: &Run) -> Result<Option<Found>, ReconcileError> {
        if let Some(owner) = OwnerId::of_key(run.key()) {
            let found = observe::observe(&self.kinds, run.client(), owner).await?;
            return Ok(found.map(Found::Parts));
        }
        let namespace = self.namespaces.read(run.key())?;
        Ok(namespace.map(|namespace| Found::Namespace(Box::new(namespace.metadata))))
    }

    fn plan(&self, found: &Found) -> Todo {
        match found {
            Found::Parts(observed) => Todo::Parts(plan(observed)),
            Found::Namespace(_) => Todo::LookAfter,
        }
    }

    async fn execute(&self, run: &Run, found: &Found, todo: Todo) -> Result<Action, ReconcileError> {
        match (found, todo) {
            (Found::Parts(observed), Todo::Parts(plan)) => {
                execute::execute(&self.kinds, run.client(), observed, plan).await
            }
            (Found::Namespace(namespace), _) => {
                namespace::look_after(&self.kinds, run.client(), &self.settings, namespace, run.now()).await
            }
            (Found::Parts(_), Todo::LookAfter) => Ok(Action::Done),
        }
    }
}
