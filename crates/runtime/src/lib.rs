//! What controllers are built with. Today: informers, caches, the work queue and election.
//!
//! ```no_run
//! # async fn example(client: setpoint_client::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use setpoint_runtime::cache::{Index, Key};
//! use setpoint_runtime::informer::{InformerSettings, Informers, Selection};
//! use setpoint_types::kinds::{Replica, Workload};
//!
//! let informers = Informers::new(client, InformerSettings::default());
//! let workloads = informers.cache::<Workload>(Selection::everywhere());
//! let replicas = informers.cache::<Replica>(Selection::everywhere());
//! replicas.add_index(Index::owner());
//! informers.synced().await?;
//!
//! // Both kinds at one revision.
//! let moment = informers.joint().with(&workloads).with(&replicas).snapshot().await?;
//! let web = moment.of(&workloads).and_then(|view| view.get(&Key::new("default", "web")));
//! # Ok(()) }
//! ```
//!
//! Start with [`informer::Informers`], then [`cache::Cache`]; [`queue`] decides which key a controller looks at next, [`election`]
//! which process does.
//!
//! Seams: the network and randomness are the client's (`setpoint_client::Client::with_seams`), time is tokio's clock.
//!
//! Not here: the controller loop.

pub mod cache;
pub mod election;
pub mod informer;
pub mod queue;
