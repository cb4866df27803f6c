//! Tests for controllers: a store in the same process, a clock that can be held, faults, and a sweep through all of them.

mod clock;
mod fault;
mod history;
mod sweep;
mod world;

pub use fault::{At, Counts, Fault, Faults, Injection, Plan, PlanError, Process};
pub use history::{Change, History, Moment, State};
pub use sweep::{Limits, Outcome, Problem, Report, Scenario, examine, replay, sweep};
pub use world::World;
