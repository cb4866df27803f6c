//! The seam to the outside: whoever publishes names.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;

use serde::Serialize;
use setpoint_runtime::Run;
use setpoint_types::{Generation, Uid};

use crate::kind::Answer;

/// A name as it is published, and for whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Without a dot at its end.
    pub name: String,
    pub owner: Owner,
    pub ttl_seconds: u32,
    pub answers: Vec<Answer>,
}

/// For which object, and which state of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Owner {
    pub uid: Uid,
    pub generation: Generation,
    /// `default/www`, for people.
    pub object: String,
}

/// Who asks: the epoch of the lease that their process works under. Of two, the larger has taken over from the other.
///
/// It is what keeps out a process that has lost its lease and does not know it yet. The cluster refuses its writes by itself; the outside
/// knows nothing of leases, and does the same by remembering the largest token that came. For that there has to be one lease: with
/// `Controller::shards` each shard has epochs of its own, and a token would be the lease's name and its epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(pub u64);

impl Token {
    /// Of a run; the smallest for one without a lease.
    pub fn of(run: &Run) -> Self {
        Self(run.fence().map_or(0, |fence| fence.epoch.0))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {}", self.0)
    }
}

/// Why the outside did not do it.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// Another object has the name; look again.
    #[error("{name} is published for another object")]
    Taken { name: String },
    /// A later state of the object is published already: whoever asks is late.
    #[error("{name} is published for generation {} already", .published.0)]
    Later { name: String, published: Generation },
    /// A process that took over has been here since.
    #[error("{asked} is no longer the newest: the zone was looked at by {newest}")]
    Deposed { asked: Token, newest: Token },
    #[error("the provider failed")]
    Failed(#[source] Box<dyn StdError + Send + Sync>),
}

/// Publishes names outside of the cluster.
///
/// **Assumes** of it
/// - Each call is done as a whole or not at all, also if its caller is dropped or the process dies: a name never answers with half of
///   what was asked for.
/// - Every name has one owner. What is published for others stays as it is, whatever is asked.
/// - Calls can be repeated: done twice, they come to the same.
/// - It remembers the largest [`Token`] of any call, that of a look included, and refuses calls with a smaller one. So from the first look
///   of the process that took over, the one before it changes nothing any more.
///
/// A provider that cannot remember a token can only bound what a late process does: by the owner, the expected owner and the generation
/// that a call names. A name that was taken back could then be published again by it, until somebody looks.
pub trait Provider: Send + Sync + 'static {
    /// Whether a name can be published here at all: it belongs to the zone.
    fn covers(&self, name: &str) -> bool;

    /// What is published under the name, and what for the owner: under another name, if the object had one before.
    fn look_up(
        &self,
        token: Token,
        name: &str,
        owner: &Uid,
    ) -> impl Future<Output = Result<Vec<Entry>, ProviderError>> + Send;

    /// Publishes the entry, in place of everything else of its owner. The name must be free, its owner's, or that of `instead_of`.
    fn publish(
        &self,
        token: Token,
        entry: Entry,
        instead_of: Option<Uid>,
    ) -> impl Future<Output = Result<(), ProviderError>> + Send;

    /// Takes back everything of an owner.
    fn retract(&self, token: Token, owner: &Uid) -> impl Future<Output = Result<(), ProviderError>> + Send;
}
