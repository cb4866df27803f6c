//! The controllers that make workloads run. One folder each: `observe.rs`, `plan.rs` (pure), `execute.rs`; who writes what is settled in
//! docs/adr/0016.
//!
//! | file | what |
//! |---|---|
//! | `registry` | every controller by name, and how it is added to a manager: begin here |
//! | `settings` | flags, environment and file, checked |
//! | `program` | which controllers run, from start to shutdown |
//! | `http` | health and metrics |
//!
//! Not here: what a controller is built from (`setpoint-runtime`), and anything of the server: these are clients like all others.

pub mod autoscaler;
mod http;
pub mod node_monitor;
pub mod policy_rollout;
mod program;
pub mod quota;
pub mod registry;
pub mod settings;

pub use program::{RunError, run};
