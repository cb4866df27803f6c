//! etcd's v3 protocol over this node: each service is decode, check, call, encode.
//!
//! - [`kv`], [`watch`], [`lease`], [`cluster`], [`maintenance`], [`auth`], [`lock`], [`election`]: the services
//! - [`succession`]: what locks and elections are made of
//! - [`check`]: what a request alone can be refused for
//! - [`permit`]: what a request needs to be allowed
//! - [`convert`]: messages to and from the store's types
//! - [`error`]: the protocol's errors, word for word
//! - [`context`]: what all services share
//!
//! Not here: the meaning of any of it (`store`), and who leads (`consensus`).

pub mod auth;
mod check;
pub mod cluster;
pub mod context;
mod convert;
pub mod election;
pub mod error;
pub mod kv;
pub mod lease;
pub mod lock;
pub mod maintenance;
mod permit;
mod succession;
pub mod watch;

/// The version of etcd whose protocol this is. Clients decide by it what they may use.
pub const PROTOCOL_VERSION: &str = "3.6.4";
/// The version of etcd's data that the protocol version implies.
pub const STORAGE_VERSION: &str = "3.6.0";
