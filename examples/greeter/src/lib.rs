//! A controller: each Greeter has a Workload that says its message.
//!
//! - [`kind`]: what a Greeter is
//! - [`reconciler`]: what is done about it
//!
//! `main.rs` runs it.

pub mod kind;
pub mod reconciler;

use setpoint_client::Dynamic;
use setpoint_runtime::cache::Cache;
use setpoint_runtime::informer::Selection;
use setpoint_runtime::{Controller, ControllerError, Manager};

use crate::kind::Greeter;
use crate::reconciler::GreeterReconciler;

/// The name of the controller: of its lease, and of the fields it decides.
pub const NAME: &str = "greeter";

/// Adds the controller to a manager, with the caches it decides by.
pub fn add_to(manager: &Manager) -> Result<(), ControllerError> {
    let greeters: Cache<Greeter> = manager.informers().cache(Selection::everywhere());
    let workloads: Cache<Dynamic> = manager.informers().dynamic("Workload", true, Selection::everywhere());
    let reconciler = GreeterReconciler { greeters: greeters.clone(), workloads: workloads.clone() };
    manager.add(Controller::new(NAME, reconciler).for_kind(&greeters).owns(&workloads).concurrency(4))
}
