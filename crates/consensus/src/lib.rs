//! Replication: a `Machine` kept identical on every member of a cluster. The only crate that names openraft.
//!
//! ```text
//!            submit ─▶ propose ─┐                        ┌─▶ transport ─▶ other members
//!  Node ─────┤                  ├─▶ openraft ─▶ log ─────┤
//!            submit ─▶ forward ─┘      │                 └─▶ snapshot ─▶ members that lag too far
//!            (not leading)             ▼
//!            read_barrier ──▶ read   state ─▶ Machine (the caller's)
//! ```
//!
//! | module | what |
//! |---|---|
//! | `node` | the handle: build, run, submit, barriers, members, status, shutdown |
//! | `machine`, `host`, `clock` | what the caller provides |
//! | `propose`, `forward`, `read` | the ways in: on the leader, from a follower, for reads |
//! | `state`, `snapshot` | the ways out: applying entries, whole states |
//! | `transport` | peers over gRPC |
//! | `log` | the log on disk |
//! | `batch`, `peer`, `membership`, `codec`, `raft` | the data |
//!
//! Not here: what commands mean, and the verdicts on them (docs/adr/0003). Why openraft, and which of its hazards are
//! contained where: docs/adr/0001.

mod batch;
mod clock;
mod codec;
mod config;
mod counters;
mod error;
mod forward;
mod host;
pub mod log;
mod machine;
mod membership;
mod node;
mod peer;
mod propose;
mod raft;
mod read;
mod snapshot;
mod state;
mod transport;

pub use batch::{Batch, MalformedBatch};
pub use clock::{Clock, SystemClock};
pub use config::{Config, Limits, LogRetention, Timing};
pub use counters::Counts;
pub use error::{CallError, MemberError, ReadError, StartError, SubmitError};
pub use host::{
    Admission, FatalError, Host, LeaderService, Mandate, Member, Newcomer, Refusal, ServiceRefusal,
};
pub use machine::{Applied, Committed, Machine, MachineFailure, Payload, Position};
pub use node::{
    AcquaintanceError, JoinError, MemberStatus, Node, Role, Seams, Standing, Status, ask_standing, has_log,
    join,
};
pub use peer::Peer;
/// For the fuzz targets: how bytes from disks and peers are read.
#[doc(hidden)]
pub mod decoders {
    pub use crate::codec::{CodecError, Wire};
    pub use crate::membership::MembershipRecord;
    pub use crate::transport::wire;
}

pub use transport::{ConnectError, Connector, Lane, PeerHandler, PeerService, TcpConnector, peer_listener};
