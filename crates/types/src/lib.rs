//! The words every crate shares: ids, positions in history, key ranges.
//!
//! Pure data. No async runtime, no clock, no randomness, no IO, no wire format.

mod ids;
mod range;

pub use ids::{ClusterId, LeaseId, NodeId, Revision, Timestamp};
pub use range::KeyRange;
