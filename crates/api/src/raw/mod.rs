//! The server's side of the object services: the same contract, with objects as they are stored.
//!
//! An object lies in the store as its encoding, without a revision. Decoding it only to encode it again would be most of
//! the work of a read, so the messages in [`v1`] hold a [`RawObject`] where the contract says `Object`: the stored bytes,
//! and the revision that is added behind them. Clients, and the descriptors, know only the ordinary types.
//!
//! - [`object`]: stored bytes as an object
//! - [`watch`]: events, encoded once for all who watch
//! - [`received`]: the client's side of a watch, which decodes no object it is not asked for
//! - [`wire`]: walking over an encoding without decoding it

mod object;
mod received;
mod watch;
pub mod wire;

pub use object::{Part, RawObject};
pub use received::{ReceivedEvent, ReceivedEvents, ReceivedName};
pub use watch::{RawEvent, RawWatchResponse, StateEvents};

/// The messages that carry objects, and the server's trait. Generated; `build.rs` says which.
#[allow(clippy::doc_lazy_continuation, clippy::large_enum_variant)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/raw/modules.rs"));
}

pub use generated::setpoint::v1;
