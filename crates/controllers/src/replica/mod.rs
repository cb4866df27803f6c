//! The replica controller: ReplicaSet → Replicas, as many as wanted, each loss made good once.
//!
//! | file | what |
//! |---|---|
//! | `observe` | what is read |
//! | `plan` | what follows from it; pure. Its parts: `names`, `victims`, `repair`, `status` |
//! | `execute` | doing it |
//!
//! What it owns: the Replicas of sets, and the status of ReplicaSets. Not here: nodes (the scheduler), taking nodes back
//! (`binding`), batches (`batch`).

mod execute;
mod names;
mod observe;
mod plan;
mod repair;
mod status;
mod victims;

pub(crate) use names::replacement_of;
pub use observe::Observed;
pub use plan::{Doomed, NewReplica, Plan, Replacement, plan};
pub(crate) use repair::{Due, due};
use setpoint_runtime::cache::{Delta, Key};
use setpoint_runtime::informer::Selection;
use setpoint_runtime::recorder::Detail;
use setpoint_runtime::{Action, Controller, Manager, Predicate, ReconcileError, Reconciler, Run};
use setpoint_types::kinds::{Binding, PriorityClass, Replica, ReplicaSet};
pub(crate) use status::{counts, pending};
pub(crate) use victims::victims;

use crate::registry::BuildError;
use crate::settings::Settings;

/// Of its lease and its fields.
pub const NAME: &str = "replica";

/// Keeps sets at their number.
pub struct Keeper {
    caches: observe::Caches,
    detail: Detail,
}

/// What it looks at, and what wakes which key.
pub(crate) fn build(manager: &Manager, settings: &Settings) -> Result<Controller, BuildError> {
    let informers = manager.informers();
    let sets = informers.cache::<ReplicaSet>(Selection::everywhere());
    let replicas = informers.cache::<Replica>(Selection::everywhere());
    let bindings = informers.cache::<Binding>(Selection::everywhere());
    let classes = informers.cache::<PriorityClass>(Selection::everywhere());
    replicas.add_index(observe::index());
    let (bound, waiting) = (replicas.clone(), sets.clone());
    let of_binding = move |delta: &Delta, wake: &mut dyn FnMut(Key)| {
        // A binding has the name of its replica. One whose replica is not there yet, or no more, is told of by the replica.
        if let Some(replica) = bound.get(&delta.key) {
            observe::set_of(&replica).into_iter().for_each(wake);
        }
    };
    let of_replica = |delta: &Delta, wake: &mut dyn FnMut(Key)| {
        delta.states().filter_map(observe::set_of).for_each(wake);
    };
    let of_class = move |delta: &Delta, wake: &mut dyn FnMut(Key)| {
        for set in waiting.snapshot().iter().filter_map(|set| set.read().ok()) {
            if set.spec.template.priority_class.as_deref() == Some(delta.key.name()) {
                wake(Key::new(&set.metadata.namespace, &set.metadata.name));
            }
        }
    };
    let caches = observe::Caches {
        sets: sets.clone(),
        replicas: replicas.clone(),
        bindings: bindings.clone(),
        classes: classes.clone(),
    };
    let detail = Detail::new(&settings.recorder);
    Ok(Controller::new(NAME, Keeper { caches, detail })
        .for_kind(&sets)
        .watches(&replicas, of_replica)
        .watches(&bindings, of_binding)
        .watches(&classes, of_class)
        .only_if(Predicate::generation_changed())
        .concurrency(8))
}

impl Reconciler for Keeper {
    type Observed = Observed;
    type Plan = Plan;

    async fn observe(&self, run: &Run) -> Result<Option<Observed>, ReconcileError> {
        Ok(self.caches.observe(run.key(), run.now())?)
    }

    fn plan(&self, observed: &Observed) -> Plan {
        plan(observed)
    }

    async fn execute(&self, run: &Run, observed: &Observed, plan: Plan) -> Result<Action, ReconcileError> {
        execute::execute(run, observed, plan, &self.detail).await
    }
}
