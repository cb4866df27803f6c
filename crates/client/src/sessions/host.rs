//! An agent's side: it attaches to a node of the cluster, is told of sessions, and serves each on a connection of its own.

use bytes::Bytes;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::serve_request::Request as Says;
use setpoint_api::setpoint::v1::serve_response::Response as Asks;
use setpoint_api::setpoint::v1::sessions_client::SessionsClient;
use setpoint_types::{Epoch, Timestamp, Uid};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::{CHUNK_BYTES, LogQuery, Sessions, failed};
use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

/// An agent's line to one node of the cluster, by its place among the client's endpoints.
#[derive(Clone)]
pub struct HostLine {
    client: Client,
    endpoint: usize,
}

/// While this lasts, the node of the cluster asks this agent. Dropped, it is detached.
pub struct Attached {
    words: Streaming<pb::AttachResponse>,
    call: Call,
}

/// A session that a client wants.
pub struct Served {
    pub wanted: Wanted,
    pub input: HostInput,
    pub output: HostOutput,
}

/// What a client wants of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    Logs { namespace: String, replica: String, uid: Uid, query: LogQuery },
    Exec { namespace: String, replica: String, uid: Uid },
}

/// What a client says in a session, in order.
pub struct HostInput {
    answers: Streaming<pb::ServeResponse>,
}

/// What a client says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    Run { command: Vec<String>, interactive: bool },
    Input(Bytes),
    InputEnd,
}

/// What is told to the client. Waits until there is room for it.
#[derive(Clone)]
pub struct HostOutput {
    requests: mpsc::Sender<pb::ServeRequest>,
}

/// Nobody listens any more: the session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session is over")]
pub struct Gone;

impl Sessions {
    /// One line for each endpoint.
    pub fn lines(&self) -> Vec<HostLine> {
        let lines = (0..self.client.endpoints().len())
            .map(|endpoint| HostLine { client: self.client.clone(), endpoint });
        lines.collect()
    }
}

impl HostLine {
    /// Attaches as the agent of a node, whose lease is held at this epoch.
    pub async fn attach(&self, node: &str, epoch: Epoch) -> Result<Attached, Error> {
        let call = Call::read("attach", format!("Node {node}"));
        let request = self.client.request(pb::AttachRequest { node: node.to_owned(), epoch: epoch.0 });
        let mut client = SessionsClient::new(self.client.wire(self.endpoint));
        let opened = async {
            let mut words = client.attach(request).await?.into_inner();
            // The first one only says that it is so.
            words.message().await?.ok_or_else(|| Status::unavailable("the stream has ended"))?;
            Ok(words)
        };
        match within(&self.client, opened).await {
            Ok(words) => Ok(Attached { words, call }),
            Err(status) => Err(failed(&call, status)),
        }
    }

    /// Takes a session, by the word that was told.
    pub async fn serve(&self, word: String) -> Result<Served, Error> {
        let call = Call::read("serve", "a session");
        // One message is under way at a time; what is not taken waits here.
        let (sender, receiver) = mpsc::channel(1);
        let _ = sender.try_send(pb::ServeRequest { request: Some(Says::Session(word)) });
        let request = self.client.request(ReceiverStream::new(receiver));
        let mut client = SessionsClient::new(self.client.own_wire(self.endpoint));
        let opened = async {
            let mut answers = client.serve(request).await?.into_inner();
            let first = answers.message().await?.and_then(|answer| answer.response);
            Ok((first, answers))
        };
        let (first, answers) = within(&self.client, opened).await.map_err(|status| failed(&call, status))?;
        let wanted = match first {
            Some(Asks::Logs(logs)) => wanted_logs(logs),
            Some(Asks::Exec(exec)) => {
                Wanted::Exec { namespace: exec.namespace, replica: exec.replica, uid: Uid::new(exec.uid) }
            }
            _ => return Err(call.unreadable("it begins with nothing that is known here")),
        };
        Ok(Served { wanted, input: HostInput { answers }, output: HostOutput { requests: sender } })
    }
}

async fn within<T>(client: &Client, opened: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let late = || Status::deadline_exceeded("no answer in time");
    timeout(client.attempt_timeout(), opened).await.unwrap_or_else(|_| Err(late()))
}

fn wanted_logs(logs: pb::SessionLogs) -> Wanted {
    let asked = logs.query.unwrap_or_default();
    let query = LogQuery {
        follow: asked.follow,
        tail: asked.tail_lines,
        since: asked.since_ms.map(Timestamp),
        timestamps: asked.timestamps,
    };
    Wanted::Logs { namespace: asked.namespace, replica: asked.replica, uid: Uid::new(logs.uid), query }
}

impl Attached {
    /// The word of the next session that somebody wants.
    pub async fn next(&mut self) -> Result<String, Error> {
        match self.words.message().await {
            Ok(Some(told)) => Ok(told.session),
            Ok(None) => Err(failed(&self.call, Status::unavailable("the stream has ended"))),
            Err(status) => Err(failed(&self.call, status)),
        }
    }
}

impl HostInput {
    /// What the client says next. None: the session is over.
    ///
    /// Safe to drop and call again: nothing is lost.
    pub async fn next(&mut self) -> Option<Said> {
        loop {
            let answer = self.answers.message().await.ok().flatten()?;
            return Some(match answer.response {
                Some(Asks::Run(run)) => Said::Run { command: run.command, interactive: run.interactive },
                Some(Asks::Input(bytes)) => Said::Input(bytes),
                Some(Asks::InputEnd(_)) => Said::InputEnd,
                // Of a newer server; what it means, only a newer agent knows.
                _ => continue,
            });
        }
    }
}

impl HostOutput {
    /// The replica is here.
    pub async fn ready(&self) -> Result<(), Gone> {
        self.send(Says::Ready(pb::SessionReady {})).await
    }

    /// What was logged, or written to the standard output.
    pub async fn output(&self, bytes: Bytes) -> Result<(), Gone> {
        self.send_in_parts(bytes, Says::Output).await
    }

    pub async fn errors(&self, bytes: Bytes) -> Result<(), Gone> {
        self.send_in_parts(bytes, Says::Errors).await
    }

    /// The last word: the code of a command; 0 for a log. Returns when it was heard, or nobody hears it any more.
    pub async fn end(self, code: u32, input: HostInput) -> Result<(), Gone> {
        self.last(Says::End(pb::ExecEnd { code }), input).await
    }

    /// The last word: there is no such replica here. Returns as [`HostOutput::end`] does.
    pub async fn not_found(self, message: String, input: HostInput) -> Result<(), Gone> {
        self.refuse(pb::Reason::NotFound, message, input).await
    }

    /// The last word: it cannot be done now. Returns as [`HostOutput::end`] does.
    pub async fn unavailable(self, message: String, input: HostInput) -> Result<(), Gone> {
        self.refuse(pb::Reason::Unavailable, message, input).await
    }

    async fn refuse(self, reason: pb::Reason, message: String, input: HostInput) -> Result<(), Gone> {
        let error = pb::Error { reason: reason.into(), message, ..pb::Error::default() };
        self.last(Says::Refused(error), input).await
    }

    /// What is under way is lost if the call is given up before the other side ends it; it does so when it has read this.
    async fn last(self, word: Says, mut input: HostInput) -> Result<(), Gone> {
        self.send(word).await?;
        drop(self);
        while input.next().await.is_some() {}
        Ok(())
    }

    /// Resolves when nobody listens any more.
    pub async fn closed(&self) {
        self.requests.closed().await;
    }

    async fn send_in_parts(&self, mut bytes: Bytes, says: impl Fn(Bytes) -> Says) -> Result<(), Gone> {
        while !bytes.is_empty() {
            self.send(says(bytes.split_to(bytes.len().min(CHUNK_BYTES)))).await?;
        }
        Ok(())
    }

    async fn send(&self, request: Says) -> Result<(), Gone> {
        self.requests.send(pb::ServeRequest { request: Some(request) }).await.map_err(|_| Gone)
    }
}
