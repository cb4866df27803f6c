//! The schema of a users' kind: JSON Schema 2020-12, as far as it is structural.
//!
//! Structural means that the fields an object may have, their types, lists and defaults can be read off the schema without
//! looking at an object: `read` makes a tree of `Node`s of that part. Conditions on values may be as involved as users
//! like, within limits, and are left to the `jsonschema` crate (`conditions`).
//!
//! Not here, but in the crate `objects`, for built-in kinds as well: filling in defaults, what becomes of unknown fields, lists
//! that are maps or sets, and fields that never change.

mod conditions;
mod inline;
mod keywords;
mod node;
mod read;
mod unknown;

pub use conditions::Conditions;
pub use inline::inline;
pub use node::{ListType, Node, Types, Values};
pub use read::read;
pub use unknown::{find_unknown, keeps_unknown};
