//! Objects over keys: what `setpoint.v1.Objects` asks, answered from the local copy
//! ([ADR 7](../../../../docs/adr/0007-objects-over-keys.md)).
//!
//! | file | what |
//! |---|---|
//! | [`service`] | the gRPC service |
//! | [`reader`] | what all reads share |
//! | [`permit`] | what each request needs to be allowed |
//! | [`get`], [`list`], [`watch`], [`history`] | the reads |
//! | [`freshness`] | how new an answer must be |
//! | [`key`], [`scope`], [`token`] | where objects lie, which keys a request is of, where a list goes on |
//! | [`selection`], [`attributes`], [`pick`] | selectors, and what they see of an object |
//! | [`index`] | labels and selectable fields of all objects, in memory |
//! | [`event`], [`feed`] | changes as events, shared by all watches; where they come from |
//! | [`definitions`] | kinds and policies that users define |
//! | [`write`] | everything that changes objects |
//! | [`catalog`] | the kinds that are served |
//! | [`error`] | refusals, and the table of their codes |
//!
//! A stored object is passed on as it lies there and never decoded to be sent (`setpoint_api::raw`).
//!
//! Not here: what an object may contain (the crates `types`, `objects`).

pub mod attributes;
pub mod catalog;
pub mod definitions;
pub mod error;
mod event;
pub(crate) mod feed;
pub(crate) mod freshness;
mod get;
pub mod history;
pub mod index;
pub mod key;
mod list;
pub(crate) mod permit;
mod pick;
pub(crate) mod reader;
mod scope;
mod selection;
pub(crate) mod service;
pub mod token;
pub mod watch;
pub mod write;

pub use catalog::{Catalog, Kind};
pub use error::Refusal;
pub use event::SharedEvents;
pub use freshness::{At, Barrier};
pub use index::Index;
pub use reader::{ReadLimits, Reader};
pub use service::ObjectsService;
