//! Leases over a real store, as clients see them. Time is virtual: nothing waits for a clock on the wall.
//!
//! - `kit`: a node without a cluster, that counts the time of leases itself
//! - `script`: golden scripts, one property each, in `scripts`
//! - `share`: how many of those who wait are one client's
//! - `random`: whatever several holders do, there is one holder at a time

mod kit;
mod random;
mod script;
mod share;
