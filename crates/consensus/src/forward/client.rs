//! The follower's end: a bounded queue of commands, a bounded number of questions, one stream to whoever leads.
//!
//! The task follows the leadership. Without another node that leads, everything that waits is refused at once, and with
//! one that cannot be reached a little later: it is certain that nobody has seen it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use setpoint_api::setpoint::peer::v1 as proto;
use setpoint_api::setpoint::peer::v1::forward_reply::Body as Reply;
use setpoint_api::setpoint::peer::v1::forward_request::Body as Request;
use setpoint_types::NodeId;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};
use tracing::debug;

use super::message::{self, Answer, Question};
use crate::config::Limits;
use crate::counters::Counters;
use crate::error::CallError;
use crate::host::{Host, Refusal};
use crate::log::Pledge;
use crate::node::Route;
use crate::propose::CommandQueue;
use crate::transport::{Lane, Link, Links};

/// A message takes no further command beyond this.
const MESSAGE_BYTES: usize = 512 << 10;
/// Messages between us and the connection. Commands beyond wait in the queue, where they count.
const MESSAGES_AHEAD: usize = 4;
const OPEN_PATIENCE: Duration = Duration::from_secs(1);
const RETRY_EVERY: Duration = Duration::from_millis(20);
/// How long commands wait for a leader that cannot be reached. One that was just elected may not know it yet.
const HOLD: Duration = Duration::from_secs(1);

/// What other parts of the node hold: puts commands and questions in.
pub struct Forwarder {
    queue: CommandQueue<()>,
    questions: mpsc::Sender<Asked>,
}

pub struct Asked {
    question: Question,
    answer: oneshot::Sender<Result<Answer, CallError>>,
}

impl Forwarder {
    pub fn new(limits: &Limits) -> (Arc<Self>, mpsc::Receiver<Asked>) {
        let (questions, asked) = mpsc::channel(limits.waiting_calls.max(1));
        (Arc::new(Self { queue: CommandQueue::new(limits), questions }), asked)
    }

    pub fn submit(&self, command: Bytes) -> Result<(), Refusal> {
        self.queue.submit(command, ())
    }

    /// The leader's answer. The caller brings the patience.
    pub async fn ask(&self, question: Question) -> Result<Answer, CallError> {
        let (answer, answered) = oneshot::channel();
        self.questions.try_send(Asked { question, answer }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => CallError::Overloaded,
            mpsc::error::TrySendError::Closed(_) => CallError::ShuttingDown,
        })?;
        answered.await.unwrap_or(Err(CallError::Broken))
    }

    /// The commands of the next message.
    fn pick(&self) -> Vec<Bytes> {
        self.queue.pick(MESSAGE_BYTES).into_iter().map(|queued| queued.command).collect()
    }
}

/// Sends what the forwarder takes, for as long as the node lives.
pub struct ForwardTask {
    pub forwarder: Arc<Forwarder>,
    pub asked: mpsc::Receiver<Asked>,
    pub links: Arc<Links>,
    pub route: watch::Receiver<Route>,
    pub host: Arc<dyn Host>,
    pub pledge: Arc<Pledge>,
    pub counters: Arc<Counters>,
    pub waiting_calls: usize,
}

impl ForwardTask {
    pub async fn run(mut self, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.follow() => {}
        }
        for left in self.forwarder.queue.close() {
            self.host.refused(left.command, Refusal::ShuttingDown);
        }
    }

    /// Returns when the node that reports the leadership is gone.
    async fn follow(&mut self) {
        loop {
            let leader = self.route.borrow_and_update().elsewhere();
            let mut route = self.route.clone();
            tokio::select! {
                changed = route.changed() => if changed.is_err() { return },
                () = async { match leader {
                    Some(leader) => self.serve(leader).await,
                    None => self.refuse_all().await,
                }} => {}
            }
        }
    }

    /// Works with one leader for as long as it is polled, over one stream after another.
    async fn serve(&mut self, leader: NodeId) {
        let mut unreachable_since = Instant::now();
        loop {
            match self.open(leader).await {
                Ok(mut session) => {
                    let status = session.run(&mut self.asked).await;
                    debug!(node = %leader, reason = status.message(), "the forward stream ended");
                    unreachable_since = Instant::now();
                }
                Err(reason) => debug!(node = %leader, reason, "no forward stream"),
            }
            if unreachable_since.elapsed() > HOLD {
                self.refuse_waiting();
            }
            sleep(RETRY_EVERY).await;
        }
    }

    async fn open(&self, leader: NodeId) -> Result<Session, String> {
        let link: Arc<Link> = self.links.get(leader).map_err(|error| error.to_string())?;
        let mut client = link.client(Lane::Forward).map_err(|error| error.to_string())?;
        let (requests, stream) = mpsc::channel(MESSAGES_AHEAD);
        let opening = client.forward(link.request(ReceiverStream::new(stream)));
        let opened = timeout(OPEN_PATIENCE, opening).await.map_err(|_| "no answer in time".to_owned())?;
        let replies = opened.map_err(|status| status.message().to_owned())?.into_inner();
        Ok(Session {
            forwarder: Arc::clone(&self.forwarder),
            host: Arc::clone(&self.host),
            pledge: Arc::clone(&self.pledge),
            counters: Arc::clone(&self.counters),
            waiting_calls: self.waiting_calls.max(1),
            requests,
            replies,
            confirming: None,
            outbox: None,
            pending: HashMap::new(),
            next_id: 0,
        })
    }

    /// Refuses what comes in for as long as it is polled.
    async fn refuse_all(&mut self) {
        loop {
            self.refuse_waiting();
            tokio::select! {
                () = self.forwarder.queue.filled() => {}
                Some(Asked { answer, .. }) = self.asked.recv() => drop(answer.send(Err(CallError::NoLeader))),
            }
        }
    }

    fn refuse_waiting(&mut self) {
        loop {
            let commands = self.forwarder.pick();
            if commands.is_empty() {
                break;
            }
            for command in commands {
                self.host.refused(command, Refusal::NotLeader);
            }
        }
        while let Ok(Asked { answer, .. }) = self.asked.try_recv() {
            let _ = answer.send(Err(CallError::NoLeader));
        }
    }
}

/// One open stream. Questions still unanswered when it is dropped fail as broken.
struct Session {
    forwarder: Arc<Forwarder>,
    host: Arc<dyn Host>,
    pledge: Arc<Pledge>,
    counters: Arc<Counters>,
    waiting_calls: usize,
    requests: mpsc::Sender<proto::ForwardRequest>,
    replies: Streaming<proto::ForwardReply>,
    /// The leader waits for our pledge in this round.
    confirming: Option<u64>,
    /// Taken from the queue, not yet taken by the connection.
    outbox: Option<proto::ForwardRequest>,
    pending: HashMap<u64, oneshot::Sender<Result<Answer, CallError>>>,
    next_id: u64,
}

impl Session {
    /// Returns why the stream ended.
    async fn run(&mut self, asked: &mut mpsc::Receiver<Asked>) -> Status {
        let (requests, forwarder) = (self.requests.clone(), Arc::clone(&self.forwarder));
        loop {
            if self.outbox.is_none() {
                self.outbox = self.next_pledge();
            }
            let idle = self.outbox.is_none();
            let may_ask = idle && self.has_room();
            tokio::select! {
                biased;
                reply = self.replies.message() => match reply {
                    Ok(Some(reply)) => self.receive(reply),
                    Ok(None) => return Status::unavailable("the leader ended it"),
                    Err(status) => return status,
                },
                permit = requests.reserve(), if !idle => match permit {
                    Ok(permit) => if let Some(request) = self.outbox.take() { permit.send(request) },
                    Err(_) => return Status::unavailable("the connection is gone"),
                },
                question = asked.recv(), if may_ask => match question {
                    Some(question) => self.outbox = Some(self.call(question)),
                    None => return Status::cancelled("the node is gone"),
                },
                () = forwarder.queue.filled(), if idle => self.outbox = self.next_submit(),
            }
        }
    }

    fn next_pledge(&mut self) -> Option<proto::ForwardRequest> {
        let round = self.confirming.take()?;
        Some(message::pledge(round, self.pledge.promised()))
    }

    fn next_submit(&self) -> Option<proto::ForwardRequest> {
        let commands = self.forwarder.pick();
        if commands.is_empty() {
            return None;
        }
        self.counters.add_forwarded(commands.len());
        Some(proto::ForwardRequest { body: Some(Request::Submit(proto::Submit { commands })) })
    }

    fn has_room(&mut self) -> bool {
        if self.pending.len() >= self.waiting_calls {
            // Whoever lost patience does not count.
            self.pending.retain(|_, answer| !answer.is_closed());
        }
        self.pending.len() < self.waiting_calls
    }

    fn call(&mut self, Asked { question, answer }: Asked) -> proto::ForwardRequest {
        self.next_id += 1;
        self.pending.insert(self.next_id, answer);
        message::call(self.next_id, question, self.pledge.promised())
    }

    fn receive(&mut self, reply: proto::ForwardReply) {
        match reply.body {
            Some(Reply::Refused(refused)) => {
                let reason = message::read_reason(&refused);
                for command in refused.commands {
                    self.host.refused(command, reason);
                }
            }
            Some(Reply::Answer(proto::Answer { id, outcome })) => {
                if let Some(answer) = self.pending.remove(&id) {
                    let _ = answer.send(message::read_answer(outcome));
                }
            }
            // Only the latest round counts.
            Some(Reply::Confirm(proto::Confirm { round })) => self.confirming = Some(round),
            None => {}
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // What never left is certain not to have been proposed.
        if let Some(Request::Submit(submit)) = self.outbox.take().and_then(|request| request.body) {
            for command in submit.commands {
                self.host.refused(command, Refusal::NotLeader);
            }
        }
    }
}
