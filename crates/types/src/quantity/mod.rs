//! Amounts of resources: integers per dimension, and how people write them.
//!
//! Not here: who may have how much (ledgers, in the store).

mod amounts;
mod percent;
mod unit;

pub use amounts::Amounts;
pub use percent::CountOrPercent;
pub use unit::{QuantityError, Unit};
