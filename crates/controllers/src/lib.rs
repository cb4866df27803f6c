//! The controllers that make workloads run. One folder each: `observe.rs`, `plan.rs` (pure), `execute.rs`; who writes what is settled in
//! docs/adr/0016.
//!
//! | file | what |
//! |---|---|
//! | `registry` | every controller by name, and how it is added to a manager: begin here |
//! | `settings` | flags, environment and file, checked |
//! | `program` | from settings to a manager with the chosen controllers |
//! | `workload` | Workload → ReplicaSets: revisions and rollouts |
//! | `replica` | ReplicaSet → Replicas: their number, and losses made good |
//! | `binding` | nodes that are out of reach are taken back |
//! | `batch` | Workload with an end → Replicas |
//! | `garbage_collector` | parts go after their owners; records do not pile up |
//! | `node_monitor` | what is heard of nodes, and what follows; taints, drains |
//! | `reservations` | what is reserved for nobody is given back |
//! | `quota`, `autoscaler`, `policy_rollout` | the use of quotas; how many replicas; versions of placement policies |
//!
//! Not here: what a controller is built from (`setpoint-runtime`), and anything of the server: these are clients like all others.

pub mod autoscaler;
pub mod batch;
pub mod binding;
mod deadline;
mod digest;
pub mod facts;
pub mod garbage_collector;
pub mod node_monitor;
pub mod policy_rollout;
mod priority;
mod program;
pub mod quota;
pub mod registry;
pub mod replica;
mod report;
pub mod reservations;
pub mod settings;
pub mod workload;

pub use program::{RunError, assemble};
