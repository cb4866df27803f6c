//! What controllers are built with: write what your controller does, and this crate does the rest.
//!
//! ```no_run
//! # use serde::Serialize;
//! use setpoint_client::{Client, Typed};
//! use setpoint_runtime::cache::Cache;
//! use setpoint_runtime::informer::Selection;
//! use setpoint_runtime::{Action, Controller, Manager, ManagerSettings, ReconcileError, Reconciler, Run};
//! use setpoint_types::kinds::Namespace;
//!
//! /// Gives every namespace a label.
//! struct Labeller {
//!     namespaces: Cache<Namespace>,
//! }
//!
//! #[derive(Serialize)]
//! struct Plan {
//!     add_label: bool,
//! }
//!
//! impl Reconciler for Labeller {
//!     type Observed = Typed<Namespace>;
//!     type Plan = Plan;
//!
//!     async fn observe(&self, run: &Run) -> Result<Option<Typed<Namespace>>, ReconcileError> {
//!         Ok(self.namespaces.read(run.key())?)
//!     }
//!
//!     fn plan(&self, namespace: &Typed<Namespace>) -> Plan {
//!         Plan { add_label: !namespace.metadata.labels.contains_key("tier") }
//!     }
//!
//!     async fn execute(&self, run: &Run, _: &Typed<Namespace>, plan: Plan) -> Result<Action, ReconcileError> {
//!         if plan.add_label {
//!             let patch = serde_json::json!({"metadata": {"labels": {"tier": "bronze"}}});
//!             let patch = setpoint_client::Patch::Merge(patch);
//!             run.client().api::<Namespace>().patch(run.key().name(), &patch, &Default::default()).await?;
//!         }
//!         Ok(Action::Done)
//!     }
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let manager = Manager::new(Client::from_config()?, ManagerSettings::named("labeller"))?;
//! let namespaces = manager.informers().cache::<Namespace>(Selection::everywhere());
//! manager.add(
//!     Controller::new("labeller", Labeller { namespaces: namespaces.clone() }).for_kind(&namespaces).concurrency(2),
//! )?;
//! manager.run(setpoint_runtime::stop_signal()).await?;
//! # Ok(()) }
//! ```
//!
//! | start with | for |
//! |---|---|
//! | [`Reconciler`] | what you write |
//! | [`Controller`] | what wakes it, and how it behaves |
//! | [`Manager`] | several of them in a process, from start to shutdown |
//! | [`informer::Informers`], [`cache::Cache`] | local copies of objects to decide by, also several kinds at one revision |
//! | [`ensure`] | acting so that it can be done twice, and after any crash |
//! | [`finalizer`], [`conditions`] | undoing what is outside before an object goes; saying how it stands |
//! | [`recorder`], [`trace`] | events, decisions, and the trace they are part of |
//! | [`election`] | which process works on which keys |
//! | [`queue`] | which key is looked at next, and when |
//!
//! Seams: the network and randomness are the client's (`setpoint_client::Client::with_seams`), waits are tokio's clock, the time of
//! day is a [`WallClock`].
//!
//! Not here: the client itself (`setpoint-client`), and anything of the server.

pub mod cache;
pub mod conditions;
pub mod controller;
pub mod election;
pub mod ensure;
pub mod finalizer;
mod http;
pub mod informer;
mod manager;
mod program;
pub mod queue;
pub mod recorder;
mod sentence;
mod stop_signal;
pub mod trace;
mod wall_clock;

pub use controller::{
    Action, Controller, ControllerError, ControllerSettings, Predicate, ReconcileError, Reconciler, Run,
    RunId, SnapshotError, Wake,
};
pub use manager::{Manager, ManagerError, ManagerSettings};
pub use program::exit_code;
pub use sentence::sentence;
pub use stop_signal::stop_signal;
pub use wall_clock::WallClock;
