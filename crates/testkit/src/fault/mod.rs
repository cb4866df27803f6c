//! Faults between a controller and the server.
//!
//! - [`plan`]: what goes wrong and when, as data
//! - [`faults`]: which of it is due, and what is wrong at the moment
//! - [`process`]: one life of a controller
//! - [`carrier`], [`stream`]: what this does to requests, and to streams; [`frames`] are what they are made of

mod carrier;
mod faults;
mod frames;
mod plan;
mod process;
mod stream;

pub use faults::{Counts, Faults};
pub use plan::{At, Fault, Injection, Plan, PlanError};
pub use process::Process;
