//! The replicated state machine: a pure function from state and log entries to state, verdicts and changes.
//!
//! Same state, same entries, same result, on every replica and on every replay (invariant S1): no clock, no randomness,
//! no map of random order in here, and no read whose failure could alter a verdict. A storage failure is not a verdict;
//! it stops the replica.
//!
//! - [`state`]: what is kept in memory, and how it is loaded
//! - [`lease_changes`]: which leases came or went last
//! - [`step`]: applying a chunk of entries
//! - [`txn`]: compares, checks, branches
//! - [`commit`]: guards, and carrying out what [`plan`] found possible
//! - [`operations`]: which commits were done already
//! - [`mutate`]: putting and deleting single keys
//!
//! Not here: the log, snapshots, locking (`store.rs`), reading for clients (`read.rs`).

mod commit;
mod lease_changes;
mod mutate;
mod operations;
mod plan;
mod state;
mod step;
mod txn;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use setpoint_types::{NodeId, Revision, Timestamp};

use crate::author::Author;
use crate::command::{Proposal, ProposalId};
use crate::encoding::{Record, RecordId};
use crate::engine::{Engine, EngineFailure, WriteBatch};
use crate::verdict::Verdict;

pub(crate) use commit::try_commit;
pub use operations::Done;
pub use state::{GrantedLease, Lease, Position, State};
pub(crate) use txn::{choose_read, read_branch};

/// One committed log entry.
#[derive(Clone, Debug)]
pub struct Entry {
    pub position: Position,
    pub body: Body,
}

#[derive(Clone, Debug)]
pub enum Body {
    /// A new leader's first entry.
    Blank,
    /// Independent commands, each with its own verdict, stamped by the leader.
    Commands { stamp: Timestamp, commands: Vec<Bytes> },
    /// A membership record of consensus, kept beside the state and handed back on request.
    Membership(Bytes),
}

/// Everything that happened at one revision. The place of a record is its sub-revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSet {
    pub revision: Revision,
    pub records: Vec<Record>,
}

impl ChangeSet {
    /// Who made the revision, if that was a commit that says so.
    pub fn author(&self) -> Option<&Arc<Author>> {
        self.records.first()?.author.as_ref()
    }
}

/// The result of applying a chunk of entries.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Verdicts of the proposals this node made, in log order.
    pub verdicts: Vec<(ProposalId, Verdict)>,
    pub changes: Vec<Arc<ChangeSet>>,
}

/// Records of the running chunk, not yet in the engine.
pub(crate) type Pending = BTreeMap<RecordId, Record>;

/// Applies entries in order. The state in memory is changed at once; `batch` must then be written to the engine before
/// anybody reads that state. Answers are computed only for proposals of `local`: on other nodes nobody waits for them.
pub fn apply(
    state: &mut State,
    engine: &dyn Engine,
    entries: &[Entry],
    local: NodeId,
) -> Result<(WriteBatch, Outcome), ApplyFailure> {
    let mut step = step::Step::new(state, engine, local);
    for entry in entries {
        step.entry(entry)?;
    }
    Ok(step.finish())
}

/// This replica cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ApplyFailure {
    #[error(transparent)]
    Engine(#[from] EngineFailure),
    #[error("log entry {index} cannot be applied")]
    Unreadable {
        index: u64,
        #[source]
        source: crate::codec::Unreadable,
    },
}

fn decode(index: u64, command: &Bytes) -> Result<Proposal, ApplyFailure> {
    Proposal::decode(command.clone()).map_err(|source| ApplyFailure::Unreadable { index, source })
}
