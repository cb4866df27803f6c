//! What replicas write, and commands in them, by way of any node of the cluster.
//!
//! - [`logs`], [`exec`]: a client's side
//! - [`host`]: an agent's side
//!
//! Each of them has a connection of its own: what is not read holds up nothing else. Not here: what an agent does about it.

mod exec;
mod host;
mod logs;

pub use exec::{Exec, ExecEvent, ExecInput, ExecOutput};
pub use host::{Attached, Gone, HostInput, HostLine, HostOutput, Said, Served, Wanted};
pub use logs::{LogQuery, LogStream};
use tonic::Status;

use crate::attempt::{Next, Safety, judge};
use crate::call::Call;
use crate::client::Client;
use crate::error::Error;
use crate::refusal::Refusal;

/// Logs of replicas and commands in them, in the client's namespace.
///
/// **Guarantees**: what is read comes in order and without gaps, and waits at the agent until it is. **Does not promise** that an agent
/// is attached to every node: one that is not reached is asked for at the other endpoints, until the call's deadline.
#[derive(Clone)]
pub struct Sessions {
    client: Client,
}

impl Sessions {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }
}

/// A message, at most.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;

/// What the end of a stream means.
fn failed(call: &Call, status: Status) -> Error {
    let (operation, target) = (call.operation, call.target.clone());
    match judge(&status, Safety::Repeatable).next {
        Next::Answer(refusal) => Error::Refused { operation, target, refusal },
        // The server has said why: that is more than that there is no answer.
        _ if setpoint_api::status::error_of(&status).is_some() => {
            Error::Refused { operation, target, refusal: Box::new(Refusal::of(&status)) }
        }
        _ => Error::Unanswered {
            operation,
            target,
            attempts: 1,
            ambiguous: false,
            last: Box::new(status.into()),
        },
    }
}
