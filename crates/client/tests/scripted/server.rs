//! Servers in this process that answer as a script says, and remember what they were asked.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::objects_server::{Objects, ObjectsServer};
use setpoint_api::status::refused;
use setpoint_client::{Client, ConnectError, Connector, Endpoint, Entropy, Settings, Wire, WireError};
use tokio_stream::{Stream, StreamExt};
use tonic::{Code, Request, Response, Status};
use tower::ServiceExt;

/// What a wire carries.
type Sent = tonic::codegen::http::Request<tonic::body::Body>;

/// What a server does with one request.
#[derive(Clone, Debug)]
pub enum Step {
    /// Answers as a server would.
    Answer,
    /// Does it, and the answer is lost.
    Lose,
    Refuse(Code, Box<pb::Error>),
    Fail(Code),
    /// Never answers.
    Hang,
}

pub fn refuse(reason: pb::Reason, retry_after_ms: u32) -> Step {
    let error =
        pb::Error { reason: reason.into(), message: "scripted".into(), retry_after_ms, ..Default::default() };
    Step::Refuse(Code::Unavailable, Box::new(error))
}

/// One request, as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: &'static str,
    pub operation: String,
    pub options: pb::WriteOptions,
    pub authorization: Option<String>,
    pub trace: Option<String>,
    pub deadline: bool,
}

#[derive(Default)]
pub struct State {
    pub script: VecDeque<Step>,
    /// After the script.
    pub otherwise: Option<Step>,
    pub asked: Vec<Asked>,
    /// Operations that were done, over all servers of a cluster.
    pub done: Arc<Mutex<Vec<String>>>,
    pub pages: VecDeque<pb::ListResponse>,
    pub watch: Vec<pb::WatchResponse>,
    /// Nobody listens: connections are refused, and counted here.
    pub closed: bool,
    pub refused: usize,
}

#[derive(Clone, Default)]
pub struct Server(pub Arc<Mutex<State>>);

impl Server {
    pub fn script(&self, steps: impl IntoIterator<Item = Step>) {
        self.0.lock().script.extend(steps);
    }

    pub fn otherwise(&self, step: Step) {
        self.0.lock().otherwise = Some(step);
    }

    pub fn listen(&self, listens: bool) {
        self.0.lock().closed = !listens;
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.0.lock().asked.clone()
    }

    pub fn count(&self) -> usize {
        self.0.lock().asked.len()
    }

    async fn next<T>(
        &self,
        method: &'static str,
        request: &Request<T>,
        options: Option<pb::WriteOptions>,
    ) -> Result<bool, Status> {
        let header = |name: &str| {
            request.metadata().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let options = options.unwrap_or_default();
        let operation = options.operation.clone();
        let (step, done) = {
            let mut state = self.0.lock();
            let step = state.script.pop_front().or(state.otherwise.clone()).unwrap_or(Step::Answer);
            state.asked.push(Asked {
                method,
                operation: operation.clone(),
                options,
                authorization: header("authorization"),
                trace: header("traceparent"),
                deadline: header("grpc-timeout").is_some(),
            });
            (step, state.done.clone())
        };
        let act = || {
            let mut done = done.lock();
            let repeated = !operation.is_empty() && done.contains(&operation);
            if !repeated {
                done.push(operation.clone());
            }
            repeated
        };
        match step {
            Step::Answer => Ok(act()),
            Step::Lose => {
                act();
                Err(Status::unavailable("connection reset"))
            }
            Step::Refuse(code, error) => Err(refused(code, &error)),
            Step::Fail(code) => Err(Status::new(code, "scripted")),
            Step::Hang => std::future::pending().await,
        }
    }
}

fn written(object: Option<pb::Object>, repeated: bool) -> Response<pb::WriteResponse> {
    Response::new(pb::WriteResponse { object, revision: 7, changed: true, repeated, ..Default::default() })
}

fn named(key: Option<pb::ObjectKey>) -> Option<pb::Object> {
    let key = key.unwrap_or_default();
    let metadata =
        pb::Metadata { namespace: key.namespace, name: key.name, revision: 5, ..Default::default() };
    Some(pb::Object {
        kind: key.kind,
        metadata: Some(metadata),
        spec: r#"{"zone":"z"}"#.into(),
        ..Default::default()
    })
}

#[tonic::async_trait]
impl Objects for Server {
    async fn get(&self, request: Request<pb::GetRequest>) -> Result<Response<pb::GetResponse>, Status> {
        self.next("get", &request, None).await?;
        Ok(Response::new(pb::GetResponse { object: named(request.into_inner().key), revision: 9 }))
    }

    async fn list(&self, request: Request<pb::ListRequest>) -> Result<Response<pb::ListResponse>, Status> {
        self.next("list", &request, None).await?;
        Ok(Response::new(self.0.lock().pages.pop_front().unwrap_or_default()))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<pb::WatchResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<pb::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        self.next("watch", &request, None).await?;
        let answers = self.0.lock().watch.clone();
        Ok(Response::new(Box::pin(tokio_stream::iter(answers).map(Ok))))
    }

    async fn create(
        &self,
        request: Request<pb::CreateRequest>,
    ) -> Result<Response<pb::WriteResponse>, Status> {
        let repeated = self.next("create", &request, request.get_ref().options.clone()).await?;
        Ok(written(request.into_inner().object, repeated))
    }

    async fn update(
        &self,
        request: Request<pb::UpdateRequest>,
    ) -> Result<Response<pb::WriteResponse>, Status> {
        let repeated = self.next("update", &request, request.get_ref().options.clone()).await?;
        Ok(written(request.into_inner().object, repeated))
    }

    async fn update_status(
        &self,
        request: Request<pb::UpdateRequest>,
    ) -> Result<Response<pb::WriteResponse>, Status> {
        let repeated = self.next("update_status", &request, request.get_ref().options.clone()).await?;
        Ok(written(request.into_inner().object, repeated))
    }

    async fn apply(&self, request: Request<pb::ApplyRequest>) -> Result<Response<pb::ApplyResponse>, Status> {
        let repeated = self.next("apply", &request, request.get_ref().options.clone()).await?;
        let write = Some(written(request.into_inner().object, repeated).into_inner());
        Ok(Response::new(pb::ApplyResponse { write, taken: Vec::new() }))
    }

    async fn patch(&self, request: Request<pb::PatchRequest>) -> Result<Response<pb::WriteResponse>, Status> {
        let repeated = self.next("patch", &request, request.get_ref().options.clone()).await?;
        Ok(written(named(request.into_inner().key), repeated))
    }

    async fn delete(
        &self,
        request: Request<pb::DeleteRequest>,
    ) -> Result<Response<pb::DeleteResponse>, Status> {
        let repeated = self.next("delete", &request, request.get_ref().options.clone()).await?;
        let object = named(request.into_inner().key);
        Ok(Response::new(pb::DeleteResponse {
            object,
            revision: 8,
            gone: true,
            repeated,
            ..Default::default()
        }))
    }

    async fn transact(
        &self,
        request: Request<pb::TransactRequest>,
    ) -> Result<Response<pb::TransactResponse>, Status> {
        let repeated = self.next("transact", &request, request.get_ref().options.clone()).await?;
        let result = |write: pb::Write| match write.write {
            Some(pb::write::Write::Create(object)) => written(Some(object), repeated).into_inner(),
            _ => pb::WriteResponse::default(),
        };
        let results = request.into_inner().writes.into_iter().map(result).collect();
        Ok(Response::new(pb::TransactResponse { revision: 11, results, repeated }))
    }

    async fn history(&self, _: Request<pb::HistoryRequest>) -> Result<Response<pb::HistoryResponse>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn kinds(&self, _: Request<pb::KindsRequest>) -> Result<Response<pb::KindsResponse>, Status> {
        Err(Status::unimplemented("not scripted"))
    }
}

/// Servers `s0`, `s1`, … that share what was done.
pub struct Cluster {
    pub servers: Vec<Server>,
}

impl Cluster {
    pub fn new(size: usize) -> Self {
        let servers: Vec<Server> = (0..size).map(|_| Server::default()).collect();
        let done = servers[0].0.lock().done.clone();
        for server in &servers {
            server.0.lock().done = done.clone();
        }
        Self { servers }
    }

    pub fn settings(&self) -> Settings {
        let endpoint = |number: usize| format!("s{number}").parse().expect("an endpoint");
        Settings::new((0..self.servers.len()).map(endpoint).collect())
    }

    pub fn client(&self) -> Client {
        self.client_with(self.settings())
    }

    pub fn client_with(&self, settings: Settings) -> Client {
        Client::with_seams(settings, self, Entropy::seeded(1)).expect("good settings")
    }

    /// What was done, each once.
    pub fn done(&self) -> Vec<String> {
        self.servers[0].0.lock().done.lock().clone()
    }

    pub fn asked(&self) -> usize {
        self.servers.iter().map(Server::count).sum()
    }
}

impl Connector for Cluster {
    fn connect(&self, endpoint: &Endpoint) -> Result<Wire, ConnectError> {
        let number = self.settings().endpoints.iter().position(|it| it == endpoint).expect("one of ours");
        let (state, server) = (self.servers[number].0.clone(), self.servers[number].clone());
        let sent = move |request: Sent| {
            let is_closed = {
                let mut state = state.lock();
                state.refused += usize::from(state.closed);
                state.closed
            };
            let server = ObjectsServer::new(server.clone());
            async move {
                match is_closed {
                    true => Err(WireError::new(std::io::Error::from(std::io::ErrorKind::ConnectionRefused))),
                    false => server.oneshot(request).await.map_err(|never| match never {}),
                }
            }
        };
        Ok(Wire::new(tower::service_fn(sent)))
    }
}
