//! The failure modes that reconciliation has taught, each with a controller that has it and is caught, and with ours, which holds.
//!
//! `stage` is what they play with, `ours` the controller as it is written with the runtime, `weak` what the weak ones are made of.

mod ours;
mod stage;
mod weak;

// Reconciliation loops, work queues, idempotent actuation.
mod edge_triggered;
mod hidden_failure;
mod hot_key;
mod no_resync;
mod non_idempotent_create;
mod status_loop;

// Failure detection, retries, partial progress.
mod duplicate_ownership;
mod hidden_progress;
mod impatient_detector;
mod permanent_partial_state;
mod retry_storm;
mod timeout_means_failure;

mod sweeps;
