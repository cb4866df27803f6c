//! What controllers are built from.
//!
//! `queue` decides which key a controller looks at next. Not here: talking to a server.

pub mod queue;
