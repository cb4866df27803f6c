//! What was done and what was denied, a line each, in a file.
//!
//! `entry` is a line, `log` the queue that requests put entries into, `writer` the thread that empties it, `file` the
//! file and its rotation. The log is a record for people and their tools; nothing the cluster does depends on it, and
//! it is never a reason to refuse a request.

mod entry;
mod file;
mod log;
mod writer;

pub use entry::{AuditEntry, AuditResult};
pub use file::{AuditFailure, AuditOptions};
pub use log::{AuditCounts, AuditLog, Recorded};
pub use writer::AuditWriter;
