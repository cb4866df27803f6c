//! The reservation sweeper: what is reserved for a binding that is gone is given back.
//!
//! | file | what |
//! |---|---|
//! | `observe` | ledgers and bindings at one revision; who has reserved what, where they differ |
//! | `plan` | whose reservations are nobody's; pure |
//! | `execute` | asking the server once more, and giving them back |
//!
//! Reservations are made and given back together with their binding, so there is nothing to find unless a binding was torn out of the store.
//! Not here: bindings that are there (`binding`), what a quota shows of it (`quota`).

mod execute;
mod observe;
mod plan;
pub mod settings;

use observe::Views;
pub use plan::{Observed, Owner, Plan, plan};
use setpoint_runtime::cache::Key;
use setpoint_runtime::informer::Selection;
use setpoint_runtime::recorder::Detail;
use setpoint_runtime::{Action, Controller, Manager, Predicate, ReconcileError, Reconciler, Run};
use setpoint_types::kinds::{Binding, Namespace};

use crate::node_monitor::SYSTEM;
use crate::registry::BuildError;
use crate::settings::Settings;
use settings::ReservationsSettings;

/// Of its lease, and of the manager of what it writes.
pub const NAME: &str = "reservations";

/// Gives back what is nobody's.
pub struct Sweeper {
    views: Views,
    settings: ReservationsSettings,
    detail: Detail,
}

/// Ledgers belong to no namespace alone, so there is one key for all of them: the namespace of the cluster's own objects, which is there as
/// soon as there is a node.
pub(crate) fn build(manager: &Manager, settings: &Settings) -> Result<Controller, BuildError> {
    let knobs = settings.reservations.clone();
    if let Some(problem) = knobs.problems().into_iter().next() {
        return Err(BuildError { problem });
    }
    let namespaces = manager.informers().cache::<Namespace>(Selection::everywhere());
    let bindings = manager.informers().cache::<Binding>(Selection::everywhere());
    let (views, detail) = (Views { bindings }, Detail::new(&settings.recorder));
    let sweeper = Sweeper { views, settings: knobs, detail };
    Ok(Controller::new(NAME, sweeper).for_kind(&namespaces).only_if(Predicate::generation_changed()))
}

impl Reconciler for Sweeper {
    type Observed = Observed;
    type Plan = Plan;

    async fn observe(&self, run: &Run) -> Result<Option<Observed>, ReconcileError> {
        if *run.key() != Key::new("", SYSTEM) {
            return Ok(None);
        }
        Ok(Some(self.views.observe(run.client()).await?))
    }

    fn plan(&self, observed: &Observed) -> Plan {
        plan(observed)
    }

    async fn execute(&self, run: &Run, _: &Observed, plan: Plan) -> Result<Action, ReconcileError> {
        execute::execute(run, plan, &self.detail).await?;
        Ok(Action::RequeueAfter(self.settings.every()))
    }
}
