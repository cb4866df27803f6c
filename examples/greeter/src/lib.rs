//! A controller: each Greeter has a Workload that says its message.
//!
//! - [`kind`]: what a Greeter is
//! - [`reconciler`]: what is done about it
//!
//! `main.rs` runs it.

pub mod kind;
pub mod reconciler;

use setpoint_client::{Client, Dynamic};
use setpoint_runtime::cache::Cache;
use setpoint_runtime::informer::Selection;
use setpoint_runtime::{Controller, Manager, ManagerError, ManagerSettings};
use setpoint_types::kinds::KindDefinitionSpec;

use crate::kind::Greeter;
use crate::reconciler::GreeterReconciler;

/// The name of the controller: of its lease, and of the fields it decides.
pub const NAME: &str = "greeter";

/// Works until `shutdown` ends.
pub async fn run(
    client: Client,
    settings: ManagerSettings,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ManagerError> {
    let manager = Manager::new(client, settings)?;
    manager.add(controller(&manager))?;
    manager.run(shutdown).await
}

/// What wakes it: a change of a Greeter, and of a Workload that belongs to one.
fn controller(manager: &Manager) -> Controller {
    let greeters: Cache<Greeter> = manager.informers().cache(Selection::everywhere());
    let workloads: Cache<Dynamic> = manager.informers().dynamic("Workload", true, Selection::everywhere());
    let reconciler = GreeterReconciler { greeters: greeters.clone(), workloads: workloads.clone() };
    Controller::new(NAME, reconciler)
        .defines(KindDefinitionSpec::of::<Greeter>())
        .for_kind(&greeters)
        .owns(&workloads)
        .concurrency(4)
}
