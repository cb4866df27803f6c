//! The openraft type configuration: what an entry carries, how a node is named, who hears of an entry's fate.
//!
//! Every other module of this crate speaks openraft through these aliases, and nothing outside the crate sees them.

use openraft::alias::{EntryOf, LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf, VoteOf};
use openraft::error::{RPCError, StreamingError};
use openraft::impls::{self, leader_id_std};
use openraft::vote::RaftLeaderId;

use crate::batch::Batch;
use crate::machine::Position;
use crate::peer::Peer;
use crate::propose::Completion;
use crate::snapshot::SnapshotFiles;

/// Written out because openraft's macro cannot name a responder of our own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypeConfig;

impl openraft::RaftTypeConfig for TypeConfig {
    type D = Batch;
    type R = ();
    type NodeId = u64;
    type Node = Peer;
    type Term = u64;
    // One leader per term, as in the Raft paper and in etcd, so a term alone names a leadership.
    type LeaderId = leader_id_std::LeaderId<u64, u64>;
    type Vote = impls::Vote<Self::LeaderId>;
    type Payload = openraft::EntryPayload<Batch, u64, Peer>;
    type Entry = openraft::Entry<<Self::LeaderId as RaftLeaderId>::Committed, Self::Payload>;
    type AsyncRuntime = impls::TokioRuntime;
    type Responder<T>
        = Completion<T>
    where
        T: Send + 'static;
    type Batch<T>
        = impls::InlineBatch<T>
    where
        T: Send + 'static;
    type ErrorSource = impls::BoxedErrorSource;
}

pub type Entry = EntryOf<TypeConfig>;
pub type LogId = LogIdOf<TypeConfig>;
pub type Vote = VoteOf<TypeConfig>;
pub type Membership = openraft::Membership<u64, Peer>;
pub type StoredMembership = StoredMembershipOf<TypeConfig>;
pub type SnapshotMeta = SnapshotMetaOf<TypeConfig>;
pub type Snapshot = SnapshotOf<TypeConfig, SnapshotFiles>;
pub type RpcError = RPCError<TypeConfig>;
pub type SnapshotError = StreamingError<TypeConfig>;
pub type Raft = openraft::Raft<TypeConfig, crate::state::StateMachine>;

impl From<LogId> for Position {
    fn from(log_id: LogId) -> Self {
        Self { term: *log_id.leader_id, index: log_id.index }
    }
}

impl From<Position> for LogId {
    fn from(position: Position) -> Self {
        LogId { leader_id: position.term.into(), index: position.index }
    }
}
