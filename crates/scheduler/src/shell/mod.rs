//! The scheduler's contact with the world: caches in, binds and statuses out. It decides nothing.
//!
//! - [`scheduler`]: the loop
//! - `inbox.rs`, `read.rs`: what has changed in the caches, and what it means to the engine
//! - `bind.rs`, `status.rs`, `evict.rs`, `record.rs`: doing what the engine wants
//! - [`settings`], `metrics.rs`, [`http`]: what can be set, and what is shown

mod bind;
mod evict;
pub mod http;
mod inbox;
mod metrics;
mod read;
mod record;
pub mod scheduler;
pub mod settings;
mod status;
