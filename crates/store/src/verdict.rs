//! What the state machine answers: the same on every replica.

use bytes::Bytes;
use setpoint_types::{LeaseId, Revision};

use crate::command::Alarm;

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
}
