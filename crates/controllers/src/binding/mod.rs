//! The binding controller: a node that is out of reach for too long is taken back, and nothing that was reserved is left behind.
//!
//! | file | what |
//! |---|---|
//! | `observe` | what is read, and what is confirmed by the server |
//! | `plan` | what follows from it; pure |
//! | `execute` | doing it |
//!
//! What it owns: a binding's way from `Unknown` to `ReleaseRequested`, and its `replacement`. Not here: `Unknown` and back (the node
//! monitor), the release itself (the server), the replacement (`replica`, `batch`).

mod execute;
mod observe;
mod plan;

pub use observe::Observed;
pub use plan::{Plan, Step, plan};
use setpoint_runtime::cache::{Delta, Key};
use setpoint_runtime::informer::Selection;
use setpoint_runtime::recorder::Detail;
use setpoint_runtime::{Action, Controller, Manager, ReconcileError, Reconciler, Run};
use setpoint_types::kinds::{Binding, Replica};

use crate::registry::BuildError;
use crate::settings::Settings;

/// Of its lease and its fields.
pub const NAME: &str = "binding";

/// Takes nodes back.
pub struct Releaser {
    caches: observe::Caches,
    detail: Detail,
}

/// What it looks at, and what wakes which key.
pub(crate) fn build(manager: &Manager, settings: &Settings) -> Result<Controller, BuildError> {
    let bindings = manager.informers().cache::<Binding>(Selection::everywhere());
    let replicas = manager.informers().cache::<Replica>(Selection::everywhere());
    let caches = observe::Caches { bindings: bindings.clone(), replicas: replicas.clone() };
    // A binding has the name of its replica. Only that one goes, or is gone, matters here.
    let of_replica = |delta: &Delta, wake: &mut dyn FnMut(Key)| wake(delta.key.clone());
    let ends = |delta: &Delta| {
        let after = delta.after.as_ref().and_then(|entry| entry.metadata().ok());
        after.is_none_or(|metadata| metadata.is_terminating())
    };
    let detail = Detail::new(&settings.recorder);
    Ok(Controller::new(NAME, Releaser { caches, detail })
        .for_kind(&bindings)
        .watches(&replicas, of_replica)
        .only_if(ends)
        .concurrency(8))
}

impl Reconciler for Releaser {
    type Observed = Observed;
    type Plan = Plan;

    async fn observe(&self, run: &Run) -> Result<Option<Observed>, ReconcileError> {
        self.caches.observe(run.client(), run.key(), run.now()).await
    }

    fn plan(&self, observed: &Observed) -> Plan {
        plan(observed)
    }

    async fn execute(&self, run: &Run, observed: &Observed, plan: Plan) -> Result<Action, ReconcileError> {
        execute::execute(run, observed, plan, &self.detail).await
    }
}
