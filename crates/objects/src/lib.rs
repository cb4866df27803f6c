//! What a write does to an object, as pure functions: who owns which field, what is merged, what is refused, when an
//! object goes.
//!
//! Begin at [`write`]: one function per request, from (stored object, request, time and ids) to a [`write::Draft`], which
//! becomes an [`write::Outcome`] once policies have looked at it. Everything else is what these are made of:
//!
//! - [`topology`]: what a kind's JSON Schema says about merging, unknown fields, defaults
//! - [`fields`]: sets of field paths, and how they are written
//! - [`apply`], [`update`]: ownership by server-side apply, and by all other writes
//! - [`patch`]: JSON merge patch and JSON patch
//! - [`decode`], [`unknown`], [`default`], [`lists`], [`immutable`]: from bytes to a document that fits the schema's shape
//! - [`deletion`], [`owners`]: finalizers, propagation, what a deletion waits for, who may own whom
//!
//! No clock, randomness, network or wire format: whatever differs from run to run is an argument. Nothing here panics on
//! any JSON. Not here: whether values are valid (schemas, CEL, policies: `setpoint-admission`), and who may write
//! (`setpoint-access`).

pub mod apply;
mod changes;
pub mod decode;
pub mod default;
pub mod deletion;
pub mod fields;
pub mod immutable;
pub mod lists;
pub mod managed;
mod merge;
pub mod metadata;
pub mod object;
pub mod owners;
pub mod patch;
pub mod refusal;
pub mod topology;
pub mod unknown;
pub mod update;
mod view;
pub mod write;

pub use object::{ManagedFields, Metadata, Object, Operation, OwnerReference, Subresource};
pub use refusal::{FieldConflict, FieldProblem, Reason, Refusal};
pub use topology::Topology;

/// What defaults may add to one object, in bytes of JSON, so that a small object cannot be blown up by a large default. What
/// an object may have at most; the last word on its size is the server's.
pub const DEFAULTED_BYTES_MAX: usize = 1 << 20;

/// How deep JSON may be nested, everywhere: walks are recursive, so this bounds the stack. Kinds in use stay below 20.
pub const DEPTH_MAX: usize = 64;
