//! The controller loop over a store in this process, and a clock that stands still but for waits.
//!
//! - `server`, `leases`, `rig`: the store, and a controller that does what a test says
//! - `wakes`: what makes a key run
//! - `faults`: runs that go wrong
//! - `writes`: read your writes
//! - `shards`: under election
//! - `circles`: what goes in circles is noticed
//! - `http`: what a manager shows of itself
//! - `life`: start, shutdown, and what must not be added

mod circles;
mod faults;
mod http;
mod leases;
mod life;
mod rig;
mod server;
mod shards;
mod wakes;
mod writes;
