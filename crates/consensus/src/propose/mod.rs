//! From commands to log entries, on the leader.
//!
//! Commands wait in a bounded queue and become entries together: no timer makes them wait, they collect while the few
//! entries that may be in flight are on their way. What was taken counts against the budget until it is applied, so
//! that neither the log nor openraft's channels can be flooded.

mod batcher;
mod budget;
mod completion;
mod queue;

pub use self::batcher::{Batcher, Origin, Proposals};
pub use self::completion::Completion;
pub use self::queue::CommandQueue;
