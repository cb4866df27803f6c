//! Node monitor, quota, autoscaler and policy rollout over the real semantics of the store, through every fault; and what the lessons
//! describe, beside the weak variant that fails where ours does not.

mod autoscaler;
mod node_monitor;
mod policy_rollout;
mod quota;
mod silence;
pub mod stage;
