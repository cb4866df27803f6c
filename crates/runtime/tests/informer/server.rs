//! A server in this process whose watches the test holds in its hand.

use std::pin::Pin;

use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::objects_server::{Objects, ObjectsServer};
use setpoint_api::setpoint::v1::watch_event::Type;
use setpoint_client::{Client, ConnectError, Connector, Endpoint, Entropy, Settings, Wire};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use tower::ServiceExt;

/// What a wire carries.
type Sent = tonic::codegen::http::Request<tonic::body::Body>;

/// A stream that a client has opened.
pub struct Opened {
    pub request: pb::WatchRequest,
    answers: mpsc::Sender<Result<pb::WatchResponse, Status>>,
}

impl Opened {
    pub async fn send(&self, events: Vec<pb::WatchEvent>) {
        self.answers.send(Ok(pb::WatchResponse { events })).await.expect("somebody listens");
    }

    /// Whether the client has given it up.
    pub async fn given_up(&self) {
        self.answers.closed().await;
    }
}

#[derive(Clone)]
pub struct Server {
    opened: mpsc::Sender<Opened>,
}

/// A server and the streams that come to it.
pub struct Stage {
    pub client: Client,
    pub streams: mpsc::Receiver<Opened>,
}

impl Stage {
    pub fn new() -> Self {
        let (opened, streams) = mpsc::channel(16);
        let settings = Settings::new(vec!["server".parse().expect("as the test made it")]);
        let client = Client::with_seams(settings, &Server { opened }, Entropy::seeded(1))
            .expect("as the test made it");
        Self { client, streams }
    }

    pub async fn stream(&mut self) -> Opened {
        self.streams.recv().await.expect("a stream is opened")
    }
}

impl Connector for Server {
    fn connect(&self, _: &Endpoint) -> Result<Wire, ConnectError> {
        Ok(Wire::new(ServiceExt::<Sent>::map_err(ObjectsServer::new(self.clone()), |never| match never {})))
    }
}

pub fn object(kind: Type, name: &str, revision: u64, zone: &str) -> pb::WatchEvent {
    let metadata =
        pb::Metadata { name: name.into(), uid: format!("u-{name}"), revision, ..Default::default() };
    let spec = format!(r#"{{"zone":"{zone}"}}"#).into();
    let object = pb::Object { kind: "Node".into(), metadata: Some(metadata), spec, ..Default::default() };
    let author = Some(pb::Author { principal: "user:jane".into(), ..Default::default() });
    pb::WatchEvent { r#type: kind.into(), object: Some(object), revision, author, ..Default::default() }
}

pub fn bookmark(revision: u64, initial_state_end: bool) -> pb::WatchEvent {
    pb::WatchEvent { r#type: Type::Bookmark.into(), revision, initial_state_end, ..Default::default() }
}

pub fn error(reason: pb::Reason) -> pb::WatchEvent {
    let error = pb::Error { reason: reason.into(), revision: 1, ..Default::default() };
    pb::WatchEvent { r#type: Type::Error.into(), error: Some(error), ..Default::default() }
}

macro_rules! unused {
    ($($method:ident: $request:ident -> $response:ident;)*) => {
        $(
            fn $method<'a: 'f, 'f>(
                &'a self,
                _: Request<pb::$request>,
            ) -> Pin<Box<dyn Future<Output = Result<Response<pb::$response>, Status>> + Send + 'f>>
            where
                Self: 'f,
            {
                Box::pin(async { Err(Status::unimplemented("not on this stage")) })
            }
        )*
    };
}

impl Objects for Server {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<pb::WatchResponse, Status>> + Send>>;

    fn watch<'a: 'f, 'f>(
        &'a self,
        request: Request<pb::WatchRequest>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Self::WatchStream>, Status>> + Send + 'f>>
    where
        Self: 'f,
    {
        Box::pin(async move {
            let (answers, receiver) = mpsc::channel(16);
            let opened = Opened { request: request.into_inner(), answers };
            self.opened.send(opened).await.map_err(|_| Status::unavailable("the test is over"))?;
            let stream: Self::WatchStream = Box::pin(ReceiverStream::new(receiver));
            Ok(Response::new(stream))
        })
    }

    unused! {
        get: GetRequest -> GetResponse;
        list: ListRequest -> ListResponse;
        create: CreateRequest -> WriteResponse;
        update: UpdateRequest -> WriteResponse;
        update_status: UpdateRequest -> WriteResponse;
        apply: ApplyRequest -> ApplyResponse;
        patch: PatchRequest -> WriteResponse;
        delete: DeleteRequest -> DeleteResponse;
        transact: TransactRequest -> TransactResponse;
        history: HistoryRequest -> HistoryResponse;
        kinds: KindsRequest -> KindsResponse;
    }
}
