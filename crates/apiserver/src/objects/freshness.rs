//! How fresh an answer must be, and waiting until this node can give it.
//!
//! | asked for | what is waited for |
//! |---|---|
//! | latest | a barrier: everything acknowledged before the request is here |
//! | not older than R | this node has R, for a bounded time |
//! | exactly R | the same; refused if R is no longer kept |
//! | at a time | the same as for latest; refused if its state is no longer kept |
//! | cached | nothing |

use std::time::Duration;

use futures::future::BoxFuture;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_api::setpoint::v1::read_at::At as Wire;
use setpoint_types::{Revision, Timestamp};

use super::catalog::Rules;
use super::error::Refusal;
use super::reader::{Reader, blocking};
use crate::replica::Replica;

/// Passes once everything committed before the call can be read here. A seam, so that tests need no cluster.
pub trait Barrier: Send + Sync + 'static {
    fn pass(&self) -> BoxFuture<'_, Result<(), Refusal>>;

    /// False while this node knows no leader: then it may fall behind without noticing.
    fn is_led(&self) -> bool;
}

impl Barrier for Replica {
    fn pass(&self) -> BoxFuture<'_, Result<(), Refusal>> {
        Box::pin(async { Ok(self.read_barrier().await?) })
    }

    fn is_led(&self) -> bool {
        self.leader().is_some()
    }
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    Latest,
    NotOlderThan(Revision),
    Exact(Revision),
    Cached,
    Time(Timestamp),
}

/// Which revision to read, now that this node has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The newest this node has, which is fresh enough.
    Newest,
    Exactly(Revision),
}

/// What a client should wait before it asks a node again that is behind.
const CATCHING_UP: Duration = Duration::from_secs(1);

impl At {
    pub fn from_wire(at: Option<pb::ReadAt>) -> Result<Self, Refusal> {
        let positive = |field, revision: u64| match revision {
            0 => Err(Refusal::invalid(field, "must be a revision, which is at least 1")),
            revision if revision > Revision::MAX.get() => {
                Err(Refusal::invalid(field, "is larger than any revision"))
            }
            revision => Ok(Revision::new(revision)),
        };
        match at.and_then(|at| at.at) {
            None | Some(Wire::Latest(_)) => Ok(Self::Latest),
            Some(Wire::NotOlderThan(revision)) => {
                Ok(Self::NotOlderThan(positive("at.not_older_than", revision)?))
            }
            Some(Wire::Exact(revision)) => Ok(Self::Exact(positive("at.exact", revision)?)),
            Some(Wire::Cached(_)) => Ok(Self::Cached),
            Some(Wire::TimeMs(time)) => Ok(Self::Time(Timestamp(time))),
        }
    }
}

impl Reader {
    /// Brings what this node knows of a kind up to date before a read of it, so that a kind that was defined on another
    /// node is served here. Returns how fresh the read has still to be made: the barrier is passed once.
    pub async fn ready(&self, kind: &str, at: At) -> Result<At, Refusal> {
        let known = self.catalog.get(kind);
        if kind.is_empty() || known.as_ref().is_some_and(|kind| !matches!(kind.rules, Rules::Custom(_))) {
            return Ok(at);
        }
        let passes = known.is_none() || at == At::Latest;
        if passes {
            self.barrier.pass().await?;
        }
        self.rules().await?;
        Ok(if passes && at == At::Latest { At::Cached } else { at })
    }

    /// Waits until this node can answer as asked.
    pub async fn settle(&self, at: At) -> Result<Settled, Refusal> {
        match at {
            At::Latest => self.barrier.pass().await.map(|()| Settled::Newest),
            At::Cached => Ok(Settled::Newest),
            At::NotOlderThan(revision) => self.reach(revision).await.map(|()| Settled::Newest),
            At::Exact(revision) => {
                self.reach(revision).await?;
                let oldest = self.oldest_kept();
                if revision < oldest {
                    return Err(Refusal::expired(oldest));
                }
                Ok(Settled::Exactly(revision))
            }
            At::Time(time) => {
                // Everything of that time that was acknowledged must be here; also where clocks differ.
                self.barrier.pass().await?;
                let store = self.store.clone();
                let revision = blocking(move || store.revision_at(time)).await?;
                Ok(Settled::Exactly(revision.map_err(|failure| self.read_failure(failure))?))
            }
        }
    }

    /// Waits, for a bounded time, until a revision is here and watches can see it.
    pub async fn reach(&self, revision: Revision) -> Result<(), Refusal> {
        if tokio::time::timeout(self.limits.wait, self.hub.reached(revision)).await.is_ok() {
            return Ok(());
        }
        let newest = self.store.revision();
        let text =
            format!("this node has come to revision {newest}, not yet to {revision}; try again or elsewhere");
        Err(Refusal::new(Reason::Timeout, text).at(newest).retry_after(CATCHING_UP))
    }

    /// The oldest revision that can be read.
    pub fn oldest_kept(&self) -> Revision {
        Revision::new(self.store.compacted().max(1) as u64)
    }
}
