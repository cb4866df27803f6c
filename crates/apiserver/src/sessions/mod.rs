//! Logs of replicas and commands in them, passed on between clients and the agents that have the replicas
//! ([ADR 19](../../../../docs/adr/0019-sessions.md)).
//!
//! ```text
//! agent ──Attach────────▶ switchboard: who is attached          (one call per agent and node, idle)
//! client ──Logs, Exec───▶ home: which node has the replica ──▶ switchboard: tells the agent a word, and waits
//! agent ──Serve(word)───▶ switchboard: joins the two calls ──▶ passing: from one to the other
//! ```
//!
//! | file | what |
//! |---|---|
//! | [`home`] | which replica is meant, and on which node it is |
//! | [`switchboard`] | attached agents, and sessions that wait for theirs |
//! | [`session`] | the agent's end of a session |
//! | [`passing`] | logs and commands on their way, as fast as they are taken |
//! | [`service`] | the gRPC service: who may, and what is asked |
//!
//! Nothing is kept here: what a client does not take waits at the agent. Not here: what an agent does about a session (the agent's
//! crate), and how many there may be (`load`).

mod home;
mod passing;
mod service;
mod session;
mod switchboard;

pub use service::SessionsService;
pub use switchboard::Switchboard;
