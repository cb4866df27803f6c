//! What one server answered to one step, as it came off the wire.
//!
//! Nothing is normalised yet, so that the tests with planted differences can falsify exactly what a server could
//! get wrong. `normalise` turns an answer into the form that is compared and stored.

use setpoint_api::etcdserverpb as pb;

use crate::step::StreamSlot;

/// A refused request. Clients match on both parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: tonic::Code,
    pub message: String,
}

impl From<tonic::Status> for Refusal {
    fn from(status: tonic::Status) -> Self {
        Self { code: status.code(), message: status.message().to_owned() }
    }
}

impl Refusal {
    /// Stands for a server that did not answer at all within the harness's patience.
    pub fn silence() -> Self {
        Self { code: tonic::Code::DeadlineExceeded, message: "(harness) no answer".to_owned() }
    }
}

pub type Outcome<T> = Result<T, Refusal>;

/// A response on a watch stream.
#[derive(Clone, Debug)]
pub struct Arrived {
    pub response: pb::WatchResponse,
    /// It was the answer to a step, and was compared there.
    pub reported: bool,
}

/// Everything a watch stream received since it was last looked at, in order of arrival.
#[derive(Clone, Debug, Default)]
pub struct Received {
    pub responses: Vec<Arrived>,
    /// The stream broke off. `Ok` stands for a regular end.
    pub ended: Option<Outcome<()>>,
    /// What the harness saw go wrong while it waited: something did not come, or came too early.
    pub complaints: Vec<String>,
}

#[derive(Clone, Debug)]
pub enum Answer {
    Range(Outcome<pb::RangeResponse>),
    Put(Outcome<pb::PutResponse>),
    Delete(Outcome<pb::DeleteRangeResponse>),
    Txn(Outcome<pb::TxnResponse>),
    Compact(Outcome<pb::CompactionResponse>),
    Grant(Outcome<pb::LeaseGrantResponse>),
    Revoke(Outcome<pb::LeaseRevokeResponse>),
    /// A grant and, if it succeeded, the revoke after it.
    GrantBriefly(Outcome<pb::LeaseGrantResponse>, Option<Outcome<pb::LeaseRevokeResponse>>),
    TimeToLive(Outcome<pb::LeaseTimeToLiveResponse>),
    Leases(Outcome<pb::LeaseLeasesResponse>),
    KeepAlive(Outcome<pb::LeaseKeepAliveResponse>),
    /// The response to a create request; `None` if none came.
    WatchCreated(Option<pb::WatchResponse>),
    /// The response to a cancel request; `None` if none came.
    WatchCanceled(Option<pb::WatchResponse>),
    /// The revision of the response to a progress request; `None` if none came.
    Progress(Option<pb::WatchResponse>),
    Settled(Vec<(StreamSlot, Received)>),
    /// A step that asks for no answer.
    Nothing,
    Status(Outcome<pb::StatusResponse>),
    Alarm(Outcome<pb::AlarmResponse>),
    Hash(Outcome<pb::HashResponse>),
    /// Two in a row, nothing having changed in between.
    HashKv(Outcome<pb::HashKvResponse>, Outcome<pb::HashKvResponse>),
    Defragment(Outcome<pb::DefragmentResponse>),
    MemberList(Outcome<pb::MemberListResponse>),
    /// The answer to a request about something that does not exist; success carries nothing comparable.
    Stray(Outcome<()>),
}
