//! How much is done at a time, and whose turn it is.
//!
//! A request takes seats while it runs, more of them if it costs more. Requests are of levels that cannot take each
//! other's seats, and within a level the seats are shared out among those who ask. `seating` decides, without a clock and
//! without waiting; `admission` waits. Health checks and the traffic between nodes never come here.

mod admission;
mod lane;
mod level;
mod seating;

pub use admission::{Flow, Permit};
pub use lane::FlowKey;
pub use level::{FlowOptions, LEVELS, Level, LevelCounts, LevelOptions, Seats};
pub use seating::{Arrival, Outcome, Seating, Ticket, TooMany};
