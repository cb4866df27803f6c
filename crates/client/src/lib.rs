//! The client of Setpoint's object API: how every program that is not the server talks to it.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use setpoint_client::{Client, WriteOptions};
//! use setpoint_types::kinds::Namespace;
//!
//! let client = Client::from_config()?; // ~/.setpoint/config, or SETPOINT_CONFIG
//! let namespaces = client.api::<Namespace>();
//! let mut team = namespaces.get("team-a").await?;
//! team.metadata.labels.insert("tier".into(), "gold".into());
//! namespaces.update(&team, &WriteOptions::default()).await?;
//! # Ok(()) }
//! ```
//!
//! Start with [`Client`], then [`Api`] for one kind, [`Transaction`] for several objects at once, [`Leases`] for who may act,
//! [`Placement`] for what runs where, [`Sessions`] for what replicas write.
//!
//! | module | what |
//! |---|---|
//! | `api/` | reading, watching and writing the objects of one kind |
//! | `transaction`, `leases`, `ledgers` | several writes at one revision; leases and their fences; what is reserved |
//! | `access` | who one is, and what one may do |
//! | `cluster` | members, how each is, backups, compaction |
//! | `kinds` | which kinds a cluster serves, with their schemas |
//! | `placement` | giving replicas a node, and taking it back |
//! | `sessions/` | logs of replicas, commands in them, and the agents' side of both |
//! | `shape`, `parts` | what an object is in Rust: typed, dynamic, metadata only |
//! | `config/` | clusters, users and contexts in a file |
//! | `call`, `attempt` | deadlines, and which failures are tried again |
//! | `pool/` | endpoints: which one is asked, and which is left alone (`breaker`) |
//! | `wire`, `entropy` | the seams: the network and randomness. Time is tokio's clock, which a test can hold |
//!
//! Not here: caches and controllers (`setpoint-runtime`), and what the server does with a request.

mod access;
mod api;
mod attempt;
mod backoff;
mod breaker;
mod call;
mod client;
mod cluster;
pub mod config;
mod convert;
mod endpoint;
mod entropy;
mod error;
mod kinds;
mod leases;
mod ledgers;
mod options;
mod parts;
mod placement;
mod pool;
mod refusal;
mod sessions;
mod settings;
mod shape;
mod transaction;
mod wire;

pub use access::{Deed, Leave, WhoAmI};
pub use api::{Api, Page, RawWatch, Version, Versions, Watch, WatchEvent, WatchOptions};
pub use backoff::Backoff;
pub use breaker::{Breaker, BreakerSettings};
pub use client::{BuildError, Client, OnAmbiguous, OnWrite};
pub use cluster::{BackupStream, Member, MemberStatus, Upkeep};
pub use convert::author_of;
pub use endpoint::{Endpoint, EndpointError};
pub use entropy::Entropy;
pub use error::{Error, Last};
pub use kinds::{ServedColumn, ServedKind};
pub use leases::{AcquireOptions, Acquired, Holder, KeepAlive, Kept, Leases};
pub use ledgers::{Ledger, Ledgers, Reserved};
pub use options::{
    Blocker, DeleteOptions, Deleted, FieldValidation, ListOptions, OperationId, Patch, PatchOptions,
    Propagation, ReadAt, Scope, WriteOptions, Written,
};
pub use parts::Parts;
pub use placement::{
    Bind, BindGroup, BindReason, BindRejection, BindingReference, Bound, Lacking, Placement, PolicySeen,
    ReleaseReason, ReleaseRefusal, Released, SpreadSeen,
};
pub use refusal::{FieldConflict, Reason, Refusal};
pub use sessions::{
    Attached, Exec, ExecEvent, ExecInput, ExecOutput, Gone, HostInput, HostLine, HostOutput, LogQuery,
    LogStream, Said, Served, Sessions, Wanted,
};
pub use settings::{Identity, Settings, SettingsError, Timeouts, Tls, Token};
pub use shape::{Dynamic, Partial, Shape, Typed, Writable};
pub use transaction::{Committed, Transaction};
pub use wire::{Apart, ConnectError, Connector, Network, Wire, WireError};
