//! Binding and releasing over a real store, as clients see it. Time is virtual.
//!
//! - `kit`: a node without a cluster, as for leases
//! - `world`: nodes, replicas and quotas, and what is asked about them
//! - `script`: golden scripts, one property each, in `scripts`
//! - `random`: whatever several callers do, no ledger is exceeded and no replica has two nodes (P1 to P4)
//! - `speed`: many binds, for a profiler
//! - `check`: those invariants, over a whole history

mod check;
#[path = "../coordination/kit.rs"]
mod kit;
mod random;
mod script;
mod speed;
mod world;
