//! The gRPC service: each method is asking whether it may, finding the other side, and joining the two.
//!
//! Reading logs needs `get` on `Replica/logs`, running commands `create` on `Replica/exec`; an agent needs what writing the status of
//! its Node would. What lasts is asked about again ([`crate::access::Standing`]).

use futures::StreamExt;
use futures::stream::{BoxStream, Stream, unfold};
use setpoint_access::{Need, Part, Share, Verb};
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use setpoint_api::setpoint::v1::exec_request::Request as FromClient;
use setpoint_api::setpoint::v1::serve_request::Request as FromAgent;
use setpoint_api::setpoint::v1::serve_response::Response as ToAgent;
use setpoint_api::setpoint::v1::sessions_server::Sessions;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::{Extensions, Request, Response, Status, Streaming};

use super::home::{self, NODE, REPLICA};
use super::passing::{self, Allowed, CLIENT_PATIENCE, Exec};
use super::switchboard::{Attachment, Switchboard};
use crate::access::{Caller, Gate, Standing};
use crate::load::{self, Seat};
use crate::objects::{Reader, Refusal};

pub struct SessionsService {
    pub reader: Reader,
    pub gate: Gate,
    pub board: Switchboard,
}

type Answers<T> = BoxStream<'static, Result<T, Status>>;

#[tonic::async_trait]
impl Sessions for SessionsService {
    type LogsStream = Answers<pb::LogsResponse>;

    async fn logs(&self, request: Request<pb::LogsRequest>) -> Result<Response<Self::LogsStream>, Status> {
        let (caller, standing) = (self.gate.caller(&request), self.gate.standing(&request));
        let (_, extensions, query) = request.into_parts();
        let (namespace, replica) = (home::namespace(&query.namespace).to_owned(), query.replica.clone());
        let needs = move || vec![Need::part(Verb::Get, REPLICA, Part::Logs, &namespace, &replica)];
        self.gate.check(&caller, &needs)?;
        Seat::leave(&extensions);
        let place = self.place(&extensions)?;
        let home = home::find(&self.reader, &query.namespace, &query.replica).await?;
        let mut session = self.board.call(&home.node).await?;
        let query = pb::LogsRequest { namespace: home.namespace, ..query };
        session.begin(ToAgent::Logs(pb::SessionLogs { query: Some(query), uid: home.uid })).await?;
        let allowed = Allowed { standing, needs: Box::new(needs) };
        Ok(Response::new(passing::logs(session, allowed, place).boxed()))
    }

    type ExecStream = Answers<pb::ExecResponse>;

    async fn exec(
        &self,
        request: Request<Streaming<pb::ExecRequest>>,
    ) -> Result<Response<Self::ExecStream>, Status> {
        // For the audit log, also where nobody is asked.
        let caller = Caller::of(&request);
        let standings = [self.gate.standing(&request), self.gate.standing(&request)];
        let (_, extensions, mut client) = request.into_parts();
        Seat::leave(&extensions);
        let open = match first(&mut client).await?.and_then(|message| message.request) {
            Some(FromClient::Open(open)) => Some(open),
            _ => None,
        };
        let asked = open.clone().unwrap_or_default();
        let (namespace, replica) = (home::namespace(&asked.namespace).to_owned(), asked.replica);
        let needs = move || vec![Need::exec(&namespace, &replica, &[])];
        self.gate.check(&caller, &needs)?;
        let Some(open) = open else {
            return Err(Refusal::invalid("request", "must be `open` first").into());
        };
        let place = self.place(&extensions)?;
        let home = home::find(&self.reader, &open.namespace, &open.replica).await?;
        let mut session = self.board.call(&home.node).await?;
        let (namespace, replica, uid) = (home.namespace.clone(), home.replica.clone(), home.uid.clone());
        session.begin(ToAgent::Exec(pb::SessionExec { namespace, replica, uid })).await?;
        let allowed = standings.map(|standing| Allowed { standing, needs: Box::new(needs.clone()) });
        let (gate, client) = (self.gate.clone(), client.boxed());
        let exec = Exec { home, gate, caller, client, allowed, place };
        Ok(Response::new(passing::exec(exec, session).boxed()))
    }

    type AttachStream = Answers<pb::AttachResponse>;

    async fn attach(
        &self,
        request: Request<pb::AttachRequest>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let (caller, standing) = (self.gate.caller(&request), self.gate.standing(&request));
        let (_, extensions, pb::AttachRequest { node, epoch }) = request.into_parts();
        self.gate.check(&caller, || speaking_for(&node))?;
        if node.is_empty() {
            return Err(Refusal::invalid("node", "must name a node").into());
        }
        Seat::leave(&extensions);
        home::check_epoch(&self.reader, &node, epoch).await?;
        let attachment = self.board.attach(&node, epoch)?;
        Ok(Response::new(words(attachment, node, standing).boxed()))
    }

    type ServeStream = Answers<pb::ServeResponse>;

    async fn serve(
        &self,
        request: Request<Streaming<pb::ServeRequest>>,
    ) -> Result<Response<Self::ServeStream>, Status> {
        let (caller, standing) = (self.gate.caller(&request), self.gate.standing(&request));
        let (_, extensions, mut agent) = request.into_parts();
        Seat::leave(&extensions);
        let waiting = match first(&mut agent).await?.and_then(|message| message.request) {
            Some(FromAgent::Session(word)) => self.board.take(&word),
            _ => None,
        };
        let node = waiting.as_ref().map(|waiting| waiting.node.clone()).unwrap_or_default();
        self.gate.check(&caller, || speaking_for(&node))?;
        // One: what the agent has not taken yet is not taken from the client either.
        let (answers, told) = mpsc::channel(1);
        if !waiting.is_some_and(|waiting| waiting.join(agent.boxed(), answers)) {
            let text = "nobody waits for this session any more";
            return Err(Refusal::new(Reason::NotFound, text).into());
        }
        Ok(Response::new(guarded(told, node, standing).boxed()))
    }
}

impl SessionsService {
    fn place(&self, extensions: &Extensions) -> Result<Share, Refusal> {
        let mut place = self.reader.load.sessions.share(load::client(extensions));
        place.grow().map_err(|full| Refusal::full(full, "sessions", "max-sessions"))?;
        Ok(place)
    }
}

/// What an agent needs.
fn speaking_for(node: &str) -> Vec<Need> {
    vec![Need::part(Verb::Update, NODE, Part::Status, "", node)]
}

/// The first message of a client that has to say something first.
async fn first<T>(client: &mut Streaming<T>) -> Result<Option<T>, Status> {
    let late = || Refusal::new(Reason::Timeout, "nothing was said in time; send the first message at once");
    timeout(CLIENT_PATIENCE, client.message()).await.map_err(|_| Status::from(late()))?
}

/// What an agent is told, while it may speak for its node.
fn words(
    attachment: Attachment,
    node: String,
    standing: Standing,
) -> impl Stream<Item = Result<pb::AttachResponse, Status>> + Send {
    let hello = futures::stream::once(async { Ok(pb::AttachResponse::default()) });
    let told = unfold(Some((attachment, node, standing)), |state| async move {
        let (mut attachment, node, mut standing) = state?;
        let word = tokio::select! {
            denied = standing.lost(|| speaking_for(&node)) => Err(Refusal::from(denied)),
            word = attachment.words.recv() => word.ok_or_else(|| {
                Refusal::new(Reason::Fenced, format!("another agent has attached for node/{node}"))
            }),
        };
        match word {
            Ok(session) => Some((Ok(pb::AttachResponse { session }), Some((attachment, node, standing)))),
            Err(refusal) => Some((Err(refusal.into()), None)),
        }
    });
    hello.chain(told)
}

/// What an agent is sent in a session, likewise.
fn guarded(
    told: mpsc::Receiver<pb::ServeResponse>,
    node: String,
    standing: Standing,
) -> impl Stream<Item = Result<pb::ServeResponse, Status>> + Send {
    unfold(Some((told, node, standing)), |state| async move {
        let (mut told, node, mut standing) = state?;
        tokio::select! {
            denied = standing.lost(|| speaking_for(&node)) => Some((Err(denied.into()), None)),
            message = told.recv() => message.map(|message| (Ok(message), Some((told, node, standing)))),
        }
    })
}
