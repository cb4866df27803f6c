//! The errors of the etcd protocol. Clients match on the text, so each is exactly what etcd says.

use setpoint_store::{EngineFailure, ReadFailure, Rejection};
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
    InvalidClientApiVersion = InvalidArgument, "invalid client api version";
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
    MemberExists = FailedPrecondition, "member ID already exist";
    PeerUrlExists = FailedPrecondition, "Peer URLs already exists";
    NotEnoughStarted = FailedPrecondition, "re-configuration failed due to not enough started members";
    NotLearner = FailedPrecondition, "can only promote a learner member";
    LearnerNotReady = FailedPrecondition, "can only promote a learner member which is in sync with leader";
    TooManyLearners = FailedPrecondition, "too many learner members in cluster";
    NotLeader = FailedPrecondition, "not leader";
    NotSupportedForLearner = FailedPrecondition, "rpc not supported for learner";
    BadLeaderTransferee = FailedPrecondition, "bad leader transferee";
    NoLeader = Unavailable, "no leader";
    LeaderChanged = Unavailable, "leader changed";
    Stopped = Unavailable, "server stopped";
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
        }
    }
}

/// A read that failed for the client's reasons, or because this node's storage did.
pub fn read_failure(failure: ReadFailure) -> Status {
    match failure {
        ReadFailure::Rejected(rejection) => EtcdError::from(rejection).into(),
        ReadFailure::Overtaken => EtcdError::Compacted.into(),
        ReadFailure::Engine(failure) => storage_failure(&failure),
    }
}

/// Storage that cannot be read is logged here with its cause; the client may try another node.
pub fn storage_failure(failure: &EngineFailure) -> Status {
    tracing::error!(error = %failure, cause = ?std::error::Error::source(failure), "a read failed in storage");
    Status::unavailable("etcdserver: this node cannot read its storage; try another endpoint")
}
