//! From commands to log entries, on the leader.
//!
//! Commands wait in a bounded queue and become entries together: no timer makes them wait, they collect while the few
//! entries that may be in flight are on their way. What was taken counts against the budget until it is applied, so
//! that neither the log nor openraft's channels can be flooded.

mod batcher;
mod budget;
mod completion;

pub use self::batcher::{Batcher, Origin, Proposals};
pub use self::budget::{Budget, Lease};
pub use self::completion::Completion;
