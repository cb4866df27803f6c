//! How much is done at a time, and whose turn it is.
//!
//! A request takes seats while it runs, more of them if it costs more. Requests are of levels that cannot take each
//! other's seats, and within a level the seats are shared out among those who ask. `seating` decides, without a clock and
//! without waiting; `admission` waits. What lasts, streams and watches, is only counted, by client (`tally`). Health checks
//! and the traffic between nodes never come here.

mod admission;
mod key;
mod lane;
mod level;
mod seating;
mod tally;

pub use admission::{Admission, Flow, Permit, Waiter};
pub use key::FlowKey;
pub use lane::Period;
pub use level::{FlowOptions, LEVELS, Level, LevelCounts, LevelOptions, Seats};
pub use seating::{Arrival, Outcome, Seating, Ticket, TooMany};
pub use tally::{Full, Share, Tally, TallyCounts, TallyOptions};
