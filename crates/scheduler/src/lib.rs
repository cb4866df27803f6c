//! The scheduler: finds a node for every replica that has none, and says why where there is none.
//!
//! - [`core`]: deciding, without IO; start at [`core::engine`]
//! - [`shell`]: seeing and doing; start at [`shell::scheduler`]
//!
//! `docs/controllers/scheduler.md` says what it reads, what it writes and what can be set.

pub mod core;
pub mod shell;
