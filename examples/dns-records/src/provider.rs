//! The seam to the outside: whoever publishes names.

use std::error::Error as StdError;
use std::future::Future;

use serde::Serialize;
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

/// Why the outside did not do it.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// Another object has the name; look again.
    #[error("{name} is published for another object")]
    Taken { name: String },
    /// A later state of the object is published already: whoever asks is late.
    #[error("{name} is published for generation {} already", .published.0)]
    Later { name: String, published: Generation },
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
///
/// The outside knows nothing of leases, so that nobody there refuses a process that has lost its lease and does not know it yet. What
/// such a process can still do is bounded by what a call is bound to: an owner, an expected owner, and a generation that does not go back.
pub trait Provider: Send + Sync + 'static {
    /// Whether a name can be published here at all: it belongs to the zone.
    fn covers(&self, name: &str) -> bool;

    /// What is published under the name, and what for the owner: under another name, if the object had one before.
    fn look_up(
        &self,
        name: &str,
        owner: &Uid,
    ) -> impl Future<Output = Result<Vec<Entry>, ProviderError>> + Send;

    /// Publishes the entry, in place of everything else of its owner. The name must be free, its owner's, or that of `instead_of`.
    fn publish(
        &self,
        entry: Entry,
        instead_of: Option<Uid>,
    ) -> impl Future<Output = Result<(), ProviderError>> + Send;

    /// Takes back everything of an owner.
    fn retract(&self, owner: &Uid) -> impl Future<Output = Result<(), ProviderError>> + Send;
}
