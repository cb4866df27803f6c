//! The batch controller: a Workload with an end → Replicas, until as many succeeded as were asked for, or too many failed.
//!
//! | file | what |
//! |---|---|
//! | `observe` | what is read |
//! | `attempts` | how far each completion has come; pure |
//! | `plan` | what follows; pure |
//! | `execute` | doing it |
//!
//! What it owns: the Replicas of batches, the status of workloads that are batches, and their end when their time to live is over. Not
//! here: workloads that are to run for ever (`workload`), taking nodes back (`binding`).

mod attempts;
mod execute;
mod observe;
mod plan;

pub use observe::Observed;
pub use plan::{NewAttempt, Plan, plan};
use setpoint_runtime::cache::{Delta, Index, Key};
use setpoint_runtime::informer::Selection;
use setpoint_runtime::{Action, Controller, Manager, Predicate, ReconcileError, Reconciler, Run};
use setpoint_types::kinds::{Binding, PriorityClass, Replica, Workload};

use crate::registry::BuildError;
use crate::settings::Settings;

/// Of its lease and its fields.
pub const NAME: &str = "batch";

/// Runs batches to their end.
pub struct Foreman {
    caches: observe::Caches,
}

/// What it looks at, and what wakes which key.
pub(crate) fn build(manager: &Manager, _: &Settings) -> Result<Controller, BuildError> {
    let informers = manager.informers();
    let workloads = informers.cache::<Workload>(Selection::everywhere());
    let replicas = informers.cache::<Replica>(Selection::everywhere());
    let bindings = informers.cache::<Binding>(Selection::everywhere());
    let classes = informers.cache::<PriorityClass>(Selection::everywhere());
    replicas.add_index(Index::owner());
    let (bound, waiting) = (replicas.clone(), workloads.clone());
    let of_binding = move |delta: &Delta, wake: &mut dyn FnMut(Key)| {
        let metadata = bound.get(&delta.key).and_then(|replica| replica.metadata().ok());
        let owner = metadata.as_ref().and_then(|metadata| metadata.controller());
        if let Some(owner) = owner.filter(|owner| owner.kind == "Workload") {
            wake(Key::new(delta.key.namespace(), &owner.name));
        }
    };
    let of_class = move |delta: &Delta, wake: &mut dyn FnMut(Key)| {
        for workload in waiting.snapshot().iter().filter_map(|workload| workload.read().ok()) {
            if workload.spec.template.priority_class.as_deref() == Some(delta.key.name()) {
                wake(Key::new(&workload.metadata.namespace, &workload.metadata.name));
            }
        }
    };
    let caches = observe::Caches {
        workloads: workloads.clone(),
        replicas: replicas.clone(),
        bindings: bindings.clone(),
        classes: classes.clone(),
    };
    Ok(Controller::new(NAME, Foreman { caches })
        .for_kind(&workloads)
        .owns(&replicas)
        .watches(&bindings, of_binding)
        .watches(&classes, of_class)
        .only_if(Predicate::generation_changed())
        .concurrency(8))
}

impl Reconciler for Foreman {
    type Observed = Observed;
    type Plan = Plan;

    async fn observe(&self, run: &Run) -> Result<Option<Observed>, ReconcileError> {
        Ok(self.caches.observe(run.key(), run.now())?)
    }

    fn plan(&self, observed: &Observed) -> Plan {
        plan(observed)
    }

    async fn execute(&self, run: &Run, observed: &Observed, plan: Plan) -> Result<Action, ReconcileError> {
        execute::execute(run, observed, plan).await
    }
}
