//! Reading objects over a real store: get, list, watch and history, as clients see them.
//!
//! - `kit`: a node without a cluster: store, hub, index, reader
//! - `script`: golden scripts, one property each, in `scripts`
//! - `fold`: whatever a watch sends adds up to what a list says
//! - `index`: lists by selectors look only at what they return, and follow whatever happens to the state
//! - `large`: the state of many objects
//! - `shared`: one encoding of an event for all
//! - `wire`: the same over a connection, with ordinary clients

mod fold;
mod index;
mod kit;
mod large;
mod render;
mod script;
mod shared;
mod wire;
