//! The node: everything this crate does, behind one handle.
//!
//! | file | what |
//! |---|---|
//! | `build` | putting the parts together and starting them |
//! | `status` | what the node knows of the cluster, kept current for whoever watches |
//! | `vigil` | whether the leader is still there |
//! | `members` | initialising the cluster and changing its members |
//! | `leadership` | handing the leadership over, and stopping in good order |
//! | `trim` | keeping the log short |
//! | `acquaintance` | who has taken part, and who was removed |
//! | `join` | asking to become a member, before there is a node |

mod acquaintance;
mod build;
mod join;
mod leadership;
mod members;
mod status;
mod trim;
mod vigil;

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use setpoint_types::{ClusterId, NodeId};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::acquaintance::{AcquaintanceError, Standing, ask_standing};
pub use self::build::{Seams, has_log};
pub use self::join::{JoinError, join};
pub use self::status::{MemberStatus, Role, Status};

pub(crate) use self::status::Route;
pub(crate) use self::vigil::Leadership;

use crate::config::Config;
use crate::counters::{Counters, Counts};
use crate::error::{CallError, MemberError, ReadError, SubmitError};
use crate::forward::{Answer, Forwarder, Question};
use crate::host::{LeaderService, Mandate, Refusal, ServiceRefusal};
use crate::log::LogThread;
use crate::machine::Machine;
use crate::propose::{Origin, Proposals};
use crate::raft::Raft;
use crate::read::{Authority, Reads};
use crate::snapshot::Receiver;
use crate::state::Progress;
use crate::transport::{Identity, PeerHandler, PeerService};

/// A member of the cluster in this process. Cheap to clone; all clones are the same node.
///
/// Guarantees: a command that is applied was committed by a quorum; `read_barrier` returns only when everything
/// committed before the call is applied here. Assumes that the ids of the members are never reused and that nobody
/// else writes to its directory. Does not promise that a submitted command is ever proposed.
#[derive(Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    identity: Identity,
    raft: Raft,
    machine: Arc<dyn Machine>,
    service: Arc<dyn LeaderService>,
    proposals: Arc<Proposals>,
    forwarder: Arc<Forwarder>,
    reads: Reads,
    authority: Arc<Authority>,
    progress: Arc<Progress>,
    counters: Arc<Counters>,
    receiver: Receiver,
    inquiry: acquaintance::Inquiry,
    hearing: Arc<vigil::Hearing>,
    route: watch::Receiver<Route>,
    status: watch::Receiver<Status>,
    /// One change of the membership at a time, from its checks to its end.
    changing: tokio::sync::Mutex<()>,
    shutdown: CancellationToken,
    tasks: TaskTracker,
    /// Taken by `run`.
    parts: parking_lot::Mutex<Option<build::Parts>>,
    /// Taken by `shutdown`.
    log_thread: parking_lot::Mutex<Option<LogThread>>,
}

impl Node {
    pub fn id(&self) -> NodeId {
        self.inner.identity.node
    }

    pub fn cluster(&self) -> ClusterId {
        self.inner.identity.cluster
    }

    /// Hands a command to whoever leads. The verdict, if there is one, comes with the log: the local machine applies
    /// the command. `Err` means that it certainly was not proposed; after `Ok`, `Host::refused` may still say so.
    pub fn submit(&self, command: Bytes) -> Result<(), SubmitError> {
        let max = self.inner.config.limits.command_bytes;
        if command.len() > max {
            return Err(SubmitError::TooLarge { bytes: command.len(), max });
        }
        let route = *self.inner.route.borrow();
        match route {
            Route::Here { .. } => self.inner.proposals.submit(command, Origin::Local)?,
            Route::Elsewhere { .. } => self.inner.forwarder.submit(command)?,
            Route::Unknown if self.inner.shutdown.is_cancelled() => return Err(SubmitError::ShuttingDown),
            Route::Unknown => return Err(SubmitError::NoLeader),
        }
        Ok(())
    }

    /// Returns when everything committed before the call is applied here.
    pub async fn read_barrier(&self) -> Result<(), ReadError> {
        let index = self.inner.reads.local().await?;
        self.reached(index).await
    }

    /// For the leader's service: returns when this node is known to have led after the request was made, and everything
    /// acknowledged before it is applied here.
    pub async fn settle(&self, mandate: Mandate) -> Result<(), ReadError> {
        let index = match mandate {
            Mandate::Confirmed { index } => index,
            Mandate::Unconfirmed => self.inner.reads.remote().await?,
        };
        self.reached(index).await
    }

    async fn reached(&self, index: u64) -> Result<(), ReadError> {
        let reached = self.inner.progress.reached(index);
        tokio::select! {
            reached = timeout(self.inner.config.timing.read, reached) => reached.map_err(|_| ReadError::TimedOut),
            () = self.inner.shutdown.cancelled() => Err(ReadError::ShuttingDown),
        }
    }

    /// Asks the leader's service, which may be our own.
    pub async fn call_leader(&self, request: Bytes) -> Result<Bytes, CallError> {
        match self.ask_leader(Question::Service(request)).await? {
            Answer::Service(reply) => Ok(reply),
            _ => Err(CallError::Broken),
        }
    }

    /// What the node knows, kept current. Leadership changes show at once, positions within a fraction of a second.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.inner.status.clone()
    }

    /// The last index applied here, as it is right now.
    pub fn applied_index(&self) -> Option<u64> {
        self.inner.progress.applied()
    }

    pub fn counts(&self) -> Counts {
        self.inner.counters.counts()
    }

    /// To be mounted on the peer listener, see `peer_listener`.
    pub fn peer_service(&self) -> PeerService {
        PeerHandler::service(self.clone())
    }

    pub(crate) async fn ask_leader(&self, question: Question) -> Result<Answer, CallError> {
        let route = *self.inner.route.borrow();
        let asked = async {
            match route {
                Route::Here { .. } => self.answer(question, Mandate::Unconfirmed).await,
                Route::Elsewhere { .. } => self.inner.forwarder.ask(question).await,
                Route::Unknown => Err(CallError::NoLeader),
            }
        };
        tokio::select! {
            asked = timeout(self.inner.config.timing.call, asked) => asked.unwrap_or(Err(CallError::TimedOut)),
            () = self.inner.shutdown.cancelled() => Err(CallError::ShuttingDown),
        }
    }

    /// Answers as the leader. Never passes the question on: a node that does not lead says so.
    pub(crate) async fn answer(&self, question: Question, mandate: Mandate) -> Result<Answer, CallError> {
        if !self.is_leading() {
            return Err(CallError::NoLeader);
        }
        match question {
            Question::ReadIndex => match mandate {
                Mandate::Confirmed { index } => Ok(Answer::ReadIndex(index)),
                Mandate::Unconfirmed => self.inner.reads.remote().await.map(Answer::ReadIndex),
            },
            Question::Service(request) => {
                let reply = self.inner.service.call(self, request, mandate).await;
                reply.map(Answer::Service).map_err(CallError::Refused)
            }
            Question::Join(newcomer) => {
                let admission = self.inner.service.join(self, newcomer).await;
                admission.map(Answer::Join).map_err(CallError::Refused)
            }
            Question::RemoveMember(node) => {
                let removed = Box::pin(self.remove(node)).await;
                removed.map(|()| Answer::MemberRemoved).or_else(|error| match error {
                    // It asks to be gone, perhaps for the second time.
                    MemberError::NotFound { .. } => Ok(Answer::MemberRemoved),
                    MemberError::NotLeader { .. } => Err(CallError::NoLeader),
                    MemberError::NoQuorum => Err(CallError::NoQuorum),
                    other => Err(CallError::Refused(ServiceRefusal::Final(other.to_string()))),
                })
            }
        }
    }

    /// Whether the pledge that came with a question of `from` makes a quorum.
    pub(crate) fn mandate(&self, from: NodeId, pledged: Option<u64>) -> Mandate {
        match pledged.and_then(|term| self.inner.authority.at_once(from, term)) {
            Some(index) => Mandate::Confirmed { index },
            None => Mandate::Unconfirmed,
        }
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.inner.authority
    }

    /// Takes a follower's command.
    pub(crate) fn take_forwarded(&self, command: Bytes, origin: Origin) -> Result<(), Refusal> {
        if !self.is_leading() {
            return Err(Refusal::NotLeader);
        }
        self.inner.proposals.submit(command, origin)
    }

    pub(crate) fn is_leading(&self) -> bool {
        matches!(*self.inner.route.borrow(), Route::Here { .. })
    }

    pub(crate) fn raft(&self) -> &Raft {
        &self.inner.raft
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.inner.identity
    }

    /// A message came in that only a leader sends.
    pub(crate) fn heard(&self, from: Leadership) {
        self.inner.hearing.note(from);
    }

    pub(crate) fn receiver(&self) -> &Receiver {
        &self.inner.receiver
    }

    pub(crate) fn shutdown_token(&self) -> CancellationToken {
        self.inner.shutdown.clone()
    }

    /// Runs a task that ends when the node shuts down.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.inner.tasks.spawn(task);
    }
}
