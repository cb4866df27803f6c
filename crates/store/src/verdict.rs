//! What the state machine answers: the same on every replica.

use bytes::Bytes;
use setpoint_types::{LeaseId, Revision};

use crate::command::Alarm;
use crate::hold::LeaseState;
use crate::ledger::Amounts;

/// The outcome all replicas agree on. A failure of one replica is an `EngineFailure`, never this.
pub type Verdict = Result<Response, Rejection>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    Put { revision: Revision, previous: Option<KeyValue> },
    DeleteRange { revision: Revision, deleted: u64, previous: Vec<KeyValue> },
    Range(RangeResult),
    Txn(TxnResult),
    Compact { revision: Revision },
    LeaseGrant { revision: Revision, lease: LeaseId, ttl: i64 },
    LeaseRevoke { revision: Revision },
    Alarm { revision: Revision, changed: Vec<Alarm> },
    Member { revision: Revision },
    Commit(Committed),
}

/// A commit that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Of its changes; without any, the newest there was.
    pub revision: Revision,
    /// False if everything already was as asked for.
    pub changed: bool,
    /// The operation had been done before: this is what it answered then.
    pub repeated: bool,
}

/// What a guard found instead of what it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Where the key was last changed; none if it does not exist.
    Revision(Revision),
    Lease(LeaseState),
    /// What is left in the dimensions that do not suffice.
    Headroom(Amounts),
    /// The running term.
    Term(u64),
    /// How many keys there are.
    Keys(u64),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxnResult {
    pub revision: Revision,
    pub succeeded: bool,
    pub responses: Vec<Response>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeResult {
    /// The store's revision when the range was read, whatever revision was asked for.
    pub revision: Revision,
    pub kvs: Vec<KeyValue>,
    /// The limit cut the answer.
    pub more: bool,
    /// All keys in the range at that revision, whatever limit and bounds were asked for.
    pub count: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyValue {
    pub key: Bytes,
    pub value: Bytes,
    pub created: Revision,
    pub modified: Revision,
    pub version: u64,
    pub lease: LeaseId,
}

/// Why a command or read was refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("the revision asked for is compacted; the oldest kept is {oldest}")]
    Compacted { oldest: Revision },
    #[error("the revision asked for is in the future; the newest is {newest}")]
    FutureRevision { newest: Revision },
    #[error("the key does not exist")]
    KeyNotFound,
    #[error("the lease does not exist")]
    LeaseNotFound,
    #[error("the lease exists already")]
    LeaseExists,
    #[error("the leader that decided this has been succeeded")]
    Deposed,
    #[error("a member is out of space; compact, then disarm the alarm")]
    NoSpace,
    #[error("the members' data differ; the cluster refuses to serve it")]
    Corrupt,
    #[error("keys under /setpoint. are written through the object API only")]
    Reserved,
    /// A commit's guard does not hold, by its place among the guards.
    #[error("guard {index} does not hold")]
    Guard { index: usize, found: Found },
    /// A commit reserves too much, by the operation's place: what is left in the dimensions that do not suffice.
    #[error("operation {op} reserves more than is left")]
    NoHeadroom { op: usize, left: Amounts },
    /// A commit counts one where it would be too far above the emptiest domain, by the operation's place.
    #[error("operation {op} would make {has} where the emptiest has {least}")]
    Uneven { op: usize, has: u64, least: u64 },
    /// A commit gives out a lease that is held, or at an epoch that is not the next.
    #[error("operation {op} takes a lease that is held, or at an epoch that is not the next")]
    NotFree { op: usize, found: LeaseState },
    /// A commit takes a lease from a holder who does not have it.
    #[error("operation {op} ends a hold that is not")]
    NotHeld { op: usize, found: LeaseState },
    /// A commit has the operation id of another one, which made this revision.
    #[error("the operation id was used for something else at revision {revision}")]
    OperationReused { revision: Revision },
}
