//! The words every crate shares: ids, positions in history, key ranges, objects and their kinds, selectors, amounts.
//!
//! Pure data. No async runtime, no clock, no randomness, no IO, no wire format.
//!
//! Start with `object` for what an object is, `kinds` for what there can be, `registry` for finding a kind by name.

mod ids;
mod kind;
mod problem;
mod range;

pub mod kinds;
pub mod names;
pub mod object;
pub mod quantity;
pub mod registry;
pub mod schema;
pub mod selector;

pub use ids::{ClusterId, Epoch, Generation, LeaseId, NodeId, Revision, Timestamp, Uid};
pub use kind::{Column, ColumnType, Kind, KindInfo, KindType, Parts};
pub use object::{Metadata, Object, ObjectKey};
pub use problem::{FieldProblem, Problems};
pub use range::KeyRange;
