//! The workload controller: Workload → one ReplicaSet per revision of its template, and how many replicas each gets.
//!
//! | file | what |
//! |---|---|
//! | `observe` | what is read |
//! | `plan` | what follows from it; pure. Its parts: `revisions`, `rolling`, `proportion`, `progress`, `status` |
//! | `execute` | doing it |
//!
//! What it owns: the ReplicaSets and their specs, the status of workloads that are no batch. Not here: replicas (`replica`), batches
//! (`batch`).

mod execute;
mod observe;
mod plan;
mod progress;
mod proportion;
mod revisions;
mod rolling;
mod status;

pub use observe::Observed;
pub use plan::{ChangedSet, NewSet, Plan, plan};
pub(crate) use revisions::short_name;
pub use rolling::{Limits, Share};
use setpoint_runtime::cache::{Cache, Index};
use setpoint_runtime::informer::Selection;
use setpoint_runtime::recorder::Detail;
use setpoint_runtime::{Action, Controller, Manager, ReconcileError, Reconciler, Run};
use setpoint_types::kinds::{ReplicaSet, Workload};

use crate::registry::BuildError;
use crate::settings::Settings;

/// Of its lease and its fields.
pub const NAME: &str = "workload";

/// Rolls revisions out.
pub struct Roller {
    workloads: Cache<Workload>,
    sets: Cache<ReplicaSet>,
    detail: Detail,
}

/// What it looks at, and what wakes which key.
pub(crate) fn build(manager: &Manager, settings: &Settings) -> Result<Controller, BuildError> {
    let workloads = manager.informers().cache::<Workload>(Selection::everywhere());
    let sets = manager.informers().cache::<ReplicaSet>(Selection::everywhere());
    sets.add_index(Index::owner());
    let detail = Detail::new(&settings.recorder);
    let roller = Roller { workloads: workloads.clone(), sets: sets.clone(), detail };
    Ok(Controller::new(NAME, roller).for_kind(&workloads).owns(&sets).concurrency(8))
}

impl Reconciler for Roller {
    type Observed = Observed;
    type Plan = Plan;

    async fn observe(&self, run: &Run) -> Result<Option<Observed>, ReconcileError> {
        Ok(observe::observe(&self.workloads, &self.sets, run.key(), run.now())?)
    }

    fn plan(&self, observed: &Observed) -> Plan {
        plan(observed)
    }

    async fn execute(&self, run: &Run, observed: &Observed, plan: Plan) -> Result<Action, ReconcileError> {
        execute::execute(run, observed, plan, &self.detail).await
    }
}
