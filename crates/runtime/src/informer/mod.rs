//! Informers: they keep caches up to date.
//!
//! - [`machine`][]: when to open a stream and from where, when to give it up, what its answers mean; pure
//! - [`driver`][]: does what the machine says
//! - [`hub`][]: one informer per kind and selection, shared by all who want it
//! - [`stats`][], [`metrics`][]: counters, and how they are shown

mod driver;
mod hub;
pub mod machine;
mod metrics;
mod settings;
mod stats;

pub use hub::{Informers, JointOf};
pub use metrics::InformerMetrics;
pub use settings::{InformerSettings, Selection};
pub(crate) use stats::Counters;
pub use stats::Stats;
