//! Logs and commands that clients ask for: the agent attaches to every node of the cluster it knows, is told there of sessions, and
//! serves each on a call, and a connection, of its own. So nobody has to reach the agent
//! ([ADR 19](../../../../docs/adr/0019-sessions.md)).
//!
//! - [`line`]: attached to one node of the cluster, again and again
//! - [`host`]: what the agent has that sessions are about
//! - [`exec`]: a command in a process's run; [`docker`]: in a container
//!
//! Sessions are tasks of their own: the supervisor does not know of them, and waits for none.

mod docker;
mod exec;
mod host;
mod line;

pub use host::SessionHost;
pub use line::Lines;
