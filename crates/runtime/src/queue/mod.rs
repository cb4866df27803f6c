//! The work queue of a controller: which key is looked at next, and when.
//!
//! Events are wake-ups. The queue takes keys and nothing else, so that a reconcile sees the state there is and not the event
//! there was. It is asked for keys by workers (`Queue::next`), and told how it went.
//!
//! What it promises is written on [`Queue`]; why it is so, in `docs/adr/0011-work-queue.md`. `core` decides everything, as a
//! state machine without clock, randomness or runtime; `shell` waits and wakes; `metrics` shows.
//!
//! Not here: where keys come from, what a reconcile does, and how often it may fail before somebody gives up.

pub mod core;
mod metrics;
mod seams;
mod shell;

pub use self::core::{
    Added, Ask, Drain, LEVELS, Moment, Offered, Options, Outcome, PRIORITIES, Priority, Refusal, Refused,
    Settings, SettingsError, SettingsProblem, Snapshot, Tenant, TenantOf,
};
pub use metrics::QueueMetrics;
pub use seams::{Clock, Seams, TokioClock};
pub use shell::{Queue, Running};
