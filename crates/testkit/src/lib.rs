//! Tests for controllers: a store in the same process, a clock that can be held, faults, and a sweep through all of them.
//!
//! A test that runs against the server's own semantics, and takes no time:
//!
//! ```
//! use setpoint_client::{Typed, WriteOptions};
//! use setpoint_testkit::World;
//! use setpoint_types::kinds::{Namespace, NamespaceSpec};
//!
//! #[tokio::main(flavor = "current_thread", start_paused = true)] // in a test: #[tokio::test(start_paused = true)]
//! async fn main() -> Result<(), setpoint_client::Error> {
//!     let world = World::new();
//!     let namespaces = world.client().api::<Namespace>();
//!     namespaces.create(&Typed::new("team-a", NamespaceSpec::default()), &WriteOptions::default()).await?;
//!     world.pass(std::time::Duration::from_secs(3600)).await; // an hour, at once
//!     assert!(world.state().one::<Namespace>("", "team-a").is_some());
//!     Ok(())
//! }
//! ```
//!
//! A controller swept through everything that can go wrong between it and the server, in one line:
//!
//! ```
//! use std::time::Duration;
//!
//! use setpoint_client::{Client, ListOptions, Patch, Typed, WriteOptions};
//! use setpoint_testkit::{Scenario, State, sweep};
//! use setpoint_types::kinds::{Namespace, NamespaceSpec};
//! use tokio_util::sync::CancellationToken;
//!
//! /// Gives every namespace a label: the simplest controller there is.
//! async fn labeller(client: Client, stop: CancellationToken) {
//!     let namespaces = client.api::<Namespace>();
//!     let forever = async {
//!         loop {
//!             let (found, _) = namespaces.list_all(&ListOptions::default()).await.unwrap_or_default();
//!             for namespace in found.iter().filter(|it| !it.metadata.labels.contains_key("tier")) {
//!                 let patch = Patch::Merge(serde_json::json!({"metadata": {"labels": {"tier": "bronze"}}}));
//!                 // What fails now is tried again in the next round.
//!                 namespaces.patch(&namespace.metadata.name, &patch, &Default::default()).await.ok();
//!             }
//!             tokio::time::sleep(Duration::from_secs(10)).await;
//!         }
//!     };
//!     stop.run_until_cancelled(forever).await;
//! }
//!
//! async fn create(client: Client, name: &str) -> Result<(), setpoint_client::Error> {
//!     let namespace = Typed::<Namespace>::new(name, NamespaceSpec::default());
//!     client.api::<Namespace>().create(&namespace, &WriteOptions::default()).await.map(drop)
//! }
//!
//! fn all_are_labelled(state: &State) -> Result<(), String> {
//!     let bare = state.all::<Namespace>().into_iter().find(|it| !it.metadata.labels.contains_key("tier"));
//!     bare.map_or(Ok(()), |it| Err(format!("{} has no label", it.metadata.name)))
//! }
//!
//! let scenario = Scenario::new(labeller)
//!     .setup(|client| async move { create(client, "team-a").await })
//!     .step("another team", |client| async move { create(client, "team-b").await })
//!     .converged(all_are_labelled)
//!     .invariant("nobody is deleted", |moment| match moment.changes.iter().find(|it| it.after.is_none()) {
//!         Some(change) => Err(format!("{} was", change.key)),
//!         None => Ok(()),
//!     });
//! sweep(&scenario);
//! ```
//!
//! What fails is told with the plan that shows it, `lose-answer@write:3`, which [`replay`] runs again by itself.
//!
//! | start with | for |
//! |---|---|
//! | [`World`] | a store with the real semantics, clients of it, and all that ever happened there |
//! | [`Scenario`], [`sweep`] | every fault at every write and event, and what must hold nevertheless |
//! | [`Faults`], [`Plan`], [`Fault`] | one thing that goes wrong, in a test of your own |
//! | [`now`] | the date, for controllers under test |
//!
//! In a runtime of one thread whose clock is held a test repeats, step by step. It needs no RocksDB: `setpoint-store` is used without it.
//!
//! A dev-dependency, always: with it tokio's clock can be held, which no program should have.
//!
//! Not here: clusters, elections, disks (`tests/cluster`).

mod clock;
mod fault;
mod history;
mod sweep;
mod world;

pub use clock::now;
pub use fault::{At, Counts, Fault, Faults, Injection, Plan, PlanError, Process};
pub use history::{Book, Change, Entry, Held, History, Moment, State};
pub use sweep::{Limits, Outcome, Problem, Report, Scenario, Violation, examine, replay, sweep};
pub use world::World;
