//! The agent of a node: it makes the replicas that are bound to its host run, and says how they are.
//!
//! ```text
//!  server ──Bindings, Replicas──▶ caches ──▶ desired (what they mean) ─┐
//!    ▲                                                                  ▼
//!    └──────── push ◀──────────────────────────── supervisor ◀──▶ lifecycle (one machine per replica, no IO)
//!    ▲                                                │    ▲
//!    └─ keep-alives ── node::hold ── until when ──────┘    │ started, ended, probed
//!                                                     ▼    │
//!                                      runtime: process (shim per run), docker
//! ```
//!
//! | start with | for |
//! |---|---|
//! | [`agent`] | how it is put together |
//! | [`lifecycle`] | what becomes of a replica, and why |
//! | [`supervisor`] | the loop that does it |
//! | [`runtime`] | processes and containers; [`runtime::process::shim`] is what survives the agent |
//! | [`node`] | lease, registration, capacity |
//! | [`sessions`] | logs and commands, for clients that ask a node of the cluster |
//! | [`simulate`] | many nodes that only pretend |
//!
//! Not here: which node a replica gets (the scheduler), and what happens when a node is lost (the node monitor).
//! [The page about it](../../../docs/controllers/agent.md) says which fields it owns and what each signal may decide.

pub mod agent;
pub mod artifact;
pub mod clock;
pub mod desired;
pub mod durable;
pub mod http;
mod http_get;
pub mod lifecycle;
pub mod logs;
pub mod machine;
pub mod metrics;
pub mod node;
mod ports;
mod prober;
pub mod record;
pub mod runtime;
pub mod sessions;
pub mod settings;
pub mod simulate;
pub mod supervisor;
#[cfg(test)]
mod test_server;
