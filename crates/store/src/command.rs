//! What can be asked of the state machine. Decoded from the log; made by whoever serves clients.
//!
//! Requests are already checked when they get here (sizes, duplicate keys, enum values): a command that decodes can be
//! applied. What depends on the state (leases, revisions, existing keys) is decided in `machine`.

use std::sync::Arc;

use bytes::Bytes;
use setpoint_types::{KeyRange, LeaseId, NodeId};

use crate::commit::Commit;

/// Names one proposal of one node's lifetime, so that node recognises its own verdict when it applies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProposalId {
    pub node: NodeId,
    pub sequence: u64,
}

/// A command and who waits for its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub id: ProposalId,
    pub command: Command,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Put(Put),
    DeleteRange(DeleteRange),
    Txn(Txn),
    Compact {
        revision: i64,
    },
    LeaseGrant {
        lease: LeaseId,
        ttl: i64,
    },
    LeaseRevoke {
        lease: LeaseId,
    },
    /// The leader of a term found the lease's time to be up. Void in any other term: a deposed leader cannot know
    /// what its successor renewed.
    LeaseExpire {
        lease: LeaseId,
        term: u64,
    },
    Alarm {
        action: AlarmAction,
        alarm: Alarm,
    },
    PublishMember {
        member: NodeId,
        attributes: MemberAttributes,
    },
    RemoveMember {
        member: NodeId,
    },
    /// A learner that is to vote as soon as it has caught up.
    ExpectVoter {
        member: NodeId,
    },
    /// What the object API writes. Boxed: the others are small, and far more frequent.
    Commit(Arc<Commit>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Put {
    pub key: Bytes,
    pub value: Bytes,
    pub lease: LeaseId,
    pub want_previous: bool,
    /// Keep the value the key has, which must exist.
    pub keep_value: bool,
    /// Keep the lease the key has, which must exist.
    pub keep_lease: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteRange {
    pub range: KeyRange,
    pub want_previous: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    pub range: KeyRange,
    /// At most this many keys; none if zero or negative.
    pub limit: i64,
    /// The revision to read at; the newest if zero or negative.
    pub revision: i64,
    pub order: Order,
    pub by: SortTarget,
    pub keys_only: bool,
    pub count_only: bool,
    /// Bounds on revisions, each inactive if zero.
    pub bounds: Bounds,
}

impl Range {
    /// True if the keys come back in their own order and none is dropped, so a limit can stop the search.
    pub fn is_natural(&self) -> bool {
        self.bounds == Bounds::default()
            && matches!((self.by, self.order), (SortTarget::Key, Order::Unspecified | Order::Ascending))
    }

    /// True if keys are to be sorted by something else than themselves, but no order was asked for.
    pub(crate) fn is_unordered(&self) -> bool {
        self.bounds == Bounds::default() && self.order == Order::Unspecified && self.by != SortTarget::Key
    }

    /// The newest state of a range, whole.
    pub fn latest(range: KeyRange) -> Self {
        Self {
            range,
            limit: 0,
            revision: 0,
            order: Order::Unspecified,
            by: SortTarget::Key,
            keys_only: false,
            count_only: false,
            bounds: Bounds::default(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    pub modified_min: i64,
    pub modified_max: i64,
    pub created_min: i64,
    pub created_max: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Unspecified,
    Ascending,
    Descending,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortTarget {
    Key,
    Version,
    Created,
    Modified,
    Value,
}

/// All compares hold: do `success`; else do `failure`. Everything happens at one revision, or nothing does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    pub compares: Vec<Compare>,
    pub success: Vec<TxnOp>,
    pub failure: Vec<TxnOp>,
}

impl Txn {
    /// True if no branch, at any depth, can write.
    pub fn is_read_only(&self) -> bool {
        self.success.iter().chain(&self.failure).all(|op| match op {
            TxnOp::Range(_) => true,
            TxnOp::Put(_) | TxnOp::DeleteRange(_) => false,
            TxnOp::Txn(txn) => txn.is_read_only(),
        })
    }

    /// True if some branch, at any depth, puts a key.
    pub fn has_puts(&self) -> bool {
        self.success.iter().chain(&self.failure).any(|op| match op {
            TxnOp::Put(_) => true,
            TxnOp::Range(_) | TxnOp::DeleteRange(_) => false,
            TxnOp::Txn(txn) => txn.has_puts(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxnOp {
    Range(Range),
    Put(Put),
    DeleteRange(DeleteRange),
    Txn(Txn),
}

/// Must hold for every key of its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    pub range: KeyRange,
    pub operator: Operator,
    pub operand: Operand,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Equal,
    Greater,
    Less,
    NotEqual,
    /// An operator of a number the protocol does not define; etcd lets it hold.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    Version(i64),
    Created(i64),
    Modified(i64),
    Lease(i64),
    Value(Bytes),
    /// A target of a number the protocol does not define; etcd takes both sides for equal.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmAction {
    Activate,
    Deactivate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alarm {
    pub member: NodeId,
    pub kind: AlarmKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlarmKind {
    /// A member's database reached its quota: puts and new leases are refused.
    NoSpace = 1,
    /// Members disagree about the data: everything but maintenance is refused.
    Corrupt = 2,
}

impl AlarmKind {
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::NoSpace),
            2 => Some(Self::Corrupt),
            _ => None,
        }
    }
}

/// What a running member tells the others about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberAttributes {
    pub name: String,
    pub client_urls: Vec<String>,
}
