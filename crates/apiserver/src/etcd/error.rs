//! The errors of the etcd protocol. Clients match on the text, so each is exactly what etcd says.

use setpoint_access::TooMany;
use setpoint_store::Rejection;
use tonic::{Code, Status};

macro_rules! errors {
    ($($name:ident = $code:ident, $text:literal;)*) => {
        /// A refusal or failure as etcd's clients know it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum EtcdError { $($name),* }

        impl EtcdError {
            pub fn code(self) -> Code {
                match self { $(Self::$name => Code::$code),* }
            }

            pub fn text(self) -> &'static str {
                match self { $(Self::$name => concat!("etcdserver: ", $text)),* }
            }
        }
    };
}

errors! {
    EmptyKey = InvalidArgument, "key is not provided";
    KeyNotFound = InvalidArgument, "key not found";
    ValueProvided = InvalidArgument, "value is provided";
    LeaseProvided = InvalidArgument, "lease is provided";
    TooManyOps = InvalidArgument, "too many operations in txn request";
    DuplicateKey = InvalidArgument, "duplicate key given in txn request";
    InvalidSortOption = InvalidArgument, "invalid sort option";
    RequestTooLarge = InvalidArgument, "request is too large";
    MemberUrlsInvalid = InvalidArgument, "given member URLs are invalid";
    Compacted = OutOfRange, "mvcc: required revision has been compacted";
    FutureRevision = OutOfRange, "mvcc: required revision is a future revision";
    LeaseTtlTooLarge = OutOfRange, "too large lease TTL";
    NoSpace = ResourceExhausted, "mvcc: database space exceeded";
    TooManyRequests = ResourceExhausted, "too many requests";
    LeaseNotFound = NotFound, "requested lease not found";
    MemberNotFound = NotFound, "member not found";
    LeaseExists = FailedPrecondition, "lease already exists";
    PeerUrlExists = FailedPrecondition, "Peer URLs already exists";
    NotEnoughStarted = FailedPrecondition, "re-configuration failed due to not enough started members";
    NotLearner = FailedPrecondition, "can only promote a learner member";
    LearnerNotReady = FailedPrecondition, "can only promote a learner member which is in sync with leader";
    TooManyLearners = FailedPrecondition, "too many learner members in cluster";
    NotLeader = FailedPrecondition, "not leader";
    BadLeaderTransferee = FailedPrecondition, "bad leader transferee";
    PermissionDenied = PermissionDenied, "permission denied";
    NoLeader = Unavailable, "no leader";
    LeaderChanged = Unavailable, "leader changed";
    Stopped = Unavailable, "server stopped";
    // Ours: etcd's members never answer before they have started.
    Starting = Unavailable, "the leader is still starting; try again";
    Timeout = Unavailable, "request timed out";
    TimeoutLeaderFail = Unavailable, "request timed out, possibly due to previous leader failure";
    TimeoutApplied = Unavailable, "request timed out, waiting for the applied index took too long";
    Unhealthy = Unavailable, "unhealthy cluster";
    Corrupt = DataLoss, "corrupt cluster";
}

impl From<EtcdError> for Status {
    fn from(error: EtcdError) -> Self {
        Status::new(error.code(), error.text())
    }
}

/// In etcd's words, with the time to wait where gRPC's own retries look for it.
pub fn too_many(refused: TooMany) -> Status {
    let wait = u32::try_from(refused.retry_after.as_millis()).unwrap_or(u32::MAX);
    setpoint_api::status::with_pushback(EtcdError::TooManyRequests.into(), wait)
}

impl From<Rejection> for EtcdError {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Compacted { .. } => Self::Compacted,
            Rejection::FutureRevision { .. } => Self::FutureRevision,
            Rejection::KeyNotFound => Self::KeyNotFound,
            Rejection::LeaseNotFound => Self::LeaseNotFound,
            Rejection::LeaseExists => Self::LeaseExists,
            Rejection::Deposed => Self::LeaderChanged,
            Rejection::NoSpace => Self::NoSpace,
            Rejection::Corrupt => Self::Corrupt,
            Rejection::Reserved => Self::PermissionDenied,
            // Commits are not made through etcd's protocol.
            Rejection::Guard { .. }
            | Rejection::NoHeadroom { .. }
            | Rejection::Uneven { .. }
            | Rejection::NotFree { .. }
            | Rejection::NotHeld { .. }
            | Rejection::OperationReused { .. } => Self::Unhealthy,
        }
    }
}
