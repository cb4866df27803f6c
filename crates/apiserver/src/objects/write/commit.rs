//! Decisions as one commit, and what its refusal means for the request.

use bytes::Bytes;
use futures::future::BoxFuture;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_store::command::Command;
use setpoint_store::commit::{Commit, Guard, Op};
use setpoint_store::encoding::RULES;
use setpoint_store::{Amounts, Committed, Epoch, Found, LeaseName, LeaseState, Rejection, Response};
use setpoint_types::{KeyRange, LeaseId, Revision};
use std::sync::Arc;
use std::time::Duration;

use super::options::Options;
use crate::objects::definitions;
use crate::objects::error::Refusal;
use crate::objects::key::ObjectName;
use crate::quota::Quota;
use crate::replica::{ProposeError, Replica};

/// Where commits go. A seam, so that tests need no cluster.
pub trait Commits: Send + Sync + 'static {
    fn commit(&self, commit: Arc<Commit>, bytes: usize) -> BoxFuture<'_, Result<Committed, CommitError>>;
}

/// Why a commit has no verdict, or a refusal as one.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    #[error("the database has reached its quota")]
    NoSpace,
    #[error(transparent)]
    Proposal(#[from] ProposeError),
}

/// Commits of a cluster.
pub struct ClusterCommits {
    pub replica: Replica,
    pub quota: Arc<Quota>,
}

impl Commits for ClusterCommits {
    fn commit(&self, commit: Arc<Commit>, bytes: usize) -> BoxFuture<'_, Result<Committed, CommitError>> {
        Box::pin(async move {
            if bytes > 0 {
                self.quota.admit(&self.replica, bytes).await.map_err(|_| CommitError::NoSpace)?;
            }
            match self.replica.propose(Command::Commit(commit)).await? {
                Response::Commit(committed) => Ok(committed),
                other => {
                    tracing::error!(response = ?other, "a verdict does not fit its commit");
                    Err(ProposeError::Stopped.into())
                }
            }
        })
    }
}

/// What one request does, apart from objects.
#[derive(Clone, Debug, Default)]
pub struct Extra {
    pub guards: Vec<Guard>,
    pub ledgers: Vec<LedgerOp>,
    /// Where in a transaction its writes of objects are; empty for a write that is none.
    pub places: Vec<usize>,
}

impl Extra {
    /// A refusal of one write of an object, by its place among those.
    pub fn placed(&self, intent: usize, refusal: Refusal) -> Refusal {
        match self.places.get(intent) {
            Some(place) => refusal.in_part(&format!("writes[{place}]")),
            None => refusal,
        }
    }
}

/// A ledger operation, and its place among the writes of the request.
#[derive(Clone, Debug)]
pub struct LedgerOp {
    pub place: usize,
    pub op: Op,
}

/// A change to one key, and the version it was decided on.
#[derive(Clone, Debug)]
pub struct Change {
    pub key: Bytes,
    pub read_at: Revision,
    /// None if nothing is to be stored, but the decision stands only while the key is as it was read.
    pub op: Option<KeyOp>,
}

#[derive(Clone, Debug)]
pub enum KeyOp {
    Put(Bytes),
    Delete,
    /// Of the key of a hold.
    Vacate(LeaseName, Epoch),
}

/// Everything a commit of objects stands on and does.
#[derive(Clone, Debug, Default)]
pub struct Decided {
    pub changes: Vec<Change>,
    /// Where nothing may be: what was in what is deleted.
    pub emptied: Vec<KeyRange>,
    /// What ledgers become that follow what is written.
    pub follows: Vec<Op>,
    /// Of the key of the rules it was decided by.
    pub rules: Revision,
}

/// The guard that the rules are still those that something was decided by.
pub fn by_rules(revision: Revision) -> Guard {
    Guard::Revision { key: Bytes::from_static(RULES), revision }
}

/// The commit of a request. Its own guards come first, so that their places are those in the request.
pub fn assemble(options: &Options, extra: &Extra, decided: &Decided) -> Commit {
    let Decided { changes, emptied, follows, rules } = decided;
    let fence = options.fence.iter().cloned().map(Guard::Fence);
    let read = changes.iter().map(|it| Guard::Revision { key: it.key.clone(), revision: it.read_at });
    let stored = changes.iter().filter_map(|change| match change.op.as_ref()? {
        KeyOp::Put(value) => {
            Some(Op::Put { key: change.key.clone(), value: value.clone(), lease: LeaseId::NONE })
        }
        KeyOp::Delete => Some(Op::Delete { key: change.key.clone() }),
        KeyOp::Vacate(lease, epoch) => Some(Op::Vacate { lease: lease.clone(), epoch: *epoch }),
    });
    let ledgers = extra.ledgers.iter().map(|it| it.op.clone());
    let empty = emptied.iter().cloned().map(Guard::Empty);
    let by_rules = (!changes.is_empty()).then(|| by_rules(*rules));
    let defines = changes.iter().any(|it| it.op.is_some() && is_rule(&it.key));
    let moved = defines.then(|| Op::Put {
        key: Bytes::from_static(RULES),
        value: Bytes::new(),
        lease: LeaseId::NONE,
    });
    Commit {
        operation: options.operation.clone(),
        author: Some(options.author.clone()),
        guards: extra.guards.iter().cloned().chain(fence).chain(read).chain(empty).chain(by_rules).collect(),
        ops: ledgers.chain(stored).chain(moved).chain(follows.iter().cloned()).collect(),
    }
}

/// True for the key of a definition or a policy: others decide by them.
fn is_rule(key: &[u8]) -> bool {
    ObjectName::of(key).is_some_and(|it| definitions::is_rule(it.kind))
}

/// What to do about a commit that was not made.
pub enum Setback {
    /// Somebody else was faster: read and decide again.
    Race,
    Refused(Refusal),
}

/// What the failure of a commit means that has nothing to do with what it is about.
pub fn failure(error: CommitError) -> Refusal {
    match error {
        CommitError::NoSpace | CommitError::Proposal(ProposeError::Rejected(Rejection::NoSpace)) => {
            no_space()
        }
        CommitError::Proposal(ProposeError::Rejected(other)) => {
            Refusal::new(Reason::Unavailable, other.to_string())
        }
        CommitError::Proposal(error) => failed(error),
    }
}

/// What the failure of the commit that `assemble` made of these means.
pub fn setback(error: CommitError, options: &Options, extra: &Extra) -> Setback {
    let own = extra.guards.len();
    let refusal = match error {
        CommitError::Proposal(ProposeError::Rejected(rejection)) => match rejection {
            Rejection::Guard { index, found } if index < own => {
                own_guard(&extra.guards[index], found).naming(format!("guards[{index}]"), "does not hold")
            }
            Rejection::Guard { found: Found::Lease(state), .. } => fenced(options, state),
            Rejection::Guard { .. } => return Setback::Race,
            Rejection::NoHeadroom { op, left } => no_headroom(extra, op, left),
            Rejection::OperationReused { revision } => operation_reused(revision),
            other => failure(CommitError::Proposal(ProposeError::Rejected(other))),
        },
        error => failure(error),
    };
    Setback::Refused(refusal)
}

fn own_guard(guard: &Guard, found: Found) -> Refusal {
    match (guard, found) {
        (Guard::Headroom { ledger, .. }, Found::Headroom(left)) => short_of(ledger, left),
        (Guard::Fence(fence), Found::Lease(state)) => not_held(&fence.lease, state),
        (Guard::Revision { key, .. }, Found::Revision(found)) => {
            let text = if found.is_none() {
                "an object of a guard does not exist; read and decide again".to_owned()
            } else {
                format!("an object of a guard is at revision {found}; read and decide again")
            };
            let refusal = Refusal::new(Reason::Conflict, text).at(found);
            ObjectName::of(key).map_or(refusal.clone(), |name| refusal.about(name))
        }
        _ => Refusal::new(Reason::Conflict, "a guard does not hold; read and decide again"),
    }
}

fn fenced(options: &Options, state: LeaseState) -> Refusal {
    let none = LeaseName::default();
    let refusal = not_held(options.fence.as_ref().map_or(&none, |fence| &fence.lease), state);
    refusal.naming("options.fence", "does not hold")
}

fn not_held(lease: &LeaseName, state: LeaseState) -> Refusal {
    let holder = match &state.hold {
        Some(hold) => format!("{} holds it at epoch {}", hold.holder, hold.epoch),
        None => format!("nobody holds it, its last epoch was {}", state.epoch),
    };
    let text = format!(
        "the lease {} is not held at the epoch of the fence: {holder}; stop, and acquire it anew",
        lease.name
    );
    let mut refusal = Refusal::new(Reason::Fenced, text);
    let epoch = state.hold.map_or(state.epoch, |hold| hold.epoch);
    refusal.error_mut().held =
        Some(pb::Fence { namespace: lease.namespace.clone(), lease: lease.name.clone(), epoch: epoch.0 });
    refusal
}

fn no_headroom(extra: &Extra, op: usize, left: Amounts) -> Refusal {
    match extra.ledgers.get(op).map(|it| &it.op) {
        Some(Op::Reserve { ledger, .. }) => {
            let place = extra.ledgers[op].place;
            short_of(ledger, left).naming(format!("writes[{place}].reserve.amounts"), "exceed what is left")
        }
        _ => short_of("", left),
    }
}

fn short_of(ledger: &str, left: Amounts) -> Refusal {
    let parts: Vec<_> = left.iter().map(|(dimension, amount)| format!("{amount} of {dimension}")).collect();
    let text = format!(
        "the ledger {ledger} has only {} left; ask for less, or wait for a release",
        parts.join(", ")
    );
    let mut refusal = Refusal::new(Reason::NoHeadroom, text);
    let amounts =
        left.into_iter().map(|(dimension, amount)| (dimension, i64::try_from(amount).unwrap_or(i64::MAX)));
    refusal.error_mut().headroom =
        Some(pb::Headroom { ledger: ledger.to_owned(), amounts: amounts.collect() });
    refusal
}

pub fn operation_reused(revision: Revision) -> Refusal {
    let text = format!(
        "the operation id was used for another request, which made revision {revision}; use a new id"
    );
    Refusal::new(Reason::Conflict, text).at(revision).naming("options.operation", "was used before")
}

fn no_space() -> Refusal {
    let text = "the database has reached its quota; delete, compact and disarm the alarm, or raise the quota";
    Refusal::new(Reason::Unavailable, text)
}

/// What a client waits before it asks a busy or leaderless cluster again.
pub const SOON: Duration = Duration::from_millis(500);

fn failed(error: ProposeError) -> Refusal {
    let (reason, text) = match error {
        ProposeError::Rejected(_) => {
            (Reason::Internal, "the write was refused for no reason a client can cause")
        }
        ProposeError::TooLarge => {
            (Reason::TooLarge, "the write is larger than a request may be; make it smaller, or several")
        }
        ProposeError::Overloaded => {
            (Reason::TooManyRequests, "more writes wait than this node takes on; try again later")
        }
        ProposeError::NoLeader => (Reason::Unavailable, "the cluster has no leader at the moment; try again"),
        ProposeError::TimedOut { .. } => (
            Reason::Timeout,
            "the write was not confirmed in time and may still happen; repeat it with its operation id, or read first",
        ),
        ProposeError::Stopped => (Reason::Unavailable, "this node is stopping; try another one"),
    };
    let refusal = Refusal::new(reason, text);
    // What can never be done does not become possible with time.
    if matches!(reason, Reason::TooLarge | Reason::Internal) { refusal } else { refusal.retry_after(SOON) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_is_to_be_tried_again() {
        assert_eq!(failed(ProposeError::TooLarge).error().retry_after_ms, 0);
        assert_eq!(failed(ProposeError::NoLeader).error().retry_after_ms, 500);
    }
}
