//! The autoscaler: how many replicas a workload should have, by what is reported.
//!
//! | file | what |
//! |---|---|
//! | `report` | where metrics come from |
//! | `proposal` | how many replicas one metric proposes |
//! | `pace` | how fast the number may change |
//! | `hold` | whether more replicas would help, as the reasons of pending ones say |
//! | `plan` | all of it together; pure, as the files above |
//! | `observe`, `execute` | caches; carrying it out |
//!
//! Not here: measuring. docs/controllers/autoscaler.md is the page for people.

mod execute;
pub mod hold;
mod observe;
pub mod pace;
pub mod plan;
pub mod proposal;
pub mod report;
pub mod settings;

pub use execute::Scaler;
use observe::Views;
use setpoint_runtime::cache::{Delta, Index, Key};
use setpoint_runtime::informer::Selection;
use setpoint_runtime::recorder::Detail;
use setpoint_runtime::{Controller, Manager, Predicate};
use setpoint_types::kinds::{Autoscaler, PlacementPolicy, Quota, Replica, Workload};

use crate::registry::BuildError;
use crate::settings::Settings;

/// The controller's name: that of its lease, and of the manager of every field it writes.
pub const NAME: &str = "autoscaler";
/// The index by which the autoscalers of a target are found.
const BY_TARGET: &str = "target";
/// The index by which the replicas of a workload are found.
const BY_WORKLOAD: &str = "workload";

/// What it looks at, and what wakes which autoscaler.
pub fn controller(manager: &Manager, settings: &Settings) -> Result<Controller, BuildError> {
    let knobs = settings.autoscaler.clone();
    if let Some(problem) = knobs.problems().into_iter().next() {
        return Err(BuildError { problem });
    }
    let informers = manager.informers();
    let autoscalers = informers.cache::<Autoscaler>(Selection::everywhere());
    let workloads = informers.cache::<Workload>(Selection::everywhere());
    let replicas = informers.cache::<Replica>(Selection::everywhere());
    autoscalers.add_index(Index::spec(BY_TARGET, "/target/name"));
    replicas.add_index(Index::spec(BY_WORKLOAD, "/workload"));
    let views = Views {
        autoscalers: autoscalers.clone(),
        workloads: workloads.clone(),
        replicas,
        quotas: informers.cache::<Quota>(Selection::everywhere()),
        policies: informers.cache::<PlacementPolicy>(Selection::everywhere()),
    };
    let scaler = Scaler { views, settings: knobs, detail: Detail::new(&settings.recorder) };
    let of_target = autoscalers.clone();
    Ok(Controller::new(NAME, scaler)
        .for_kind(&autoscalers)
        .only_if(Predicate::generation_changed().or(Predicate::annotations_changed()))
        .watches(&workloads, move |delta: &Delta, wake| {
            let (namespace, name) = (delta.key.namespace(), delta.key.name());
            let found = of_target.find(BY_TARGET, name);
            let own = found.iter().map(|it| it.key()).filter(|key| key.namespace() == namespace);
            own.for_each(|key| wake(Key::clone(key)));
        })
        .only_if(Predicate::generation_changed()))
}
