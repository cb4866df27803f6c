//! A server in this process that has leases and shows them by a watch, over tokio's clock, which a test holds still.
//!
//! It is what the contract says a server is, as far as an election goes; `tests/cluster` has the real one.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::coordination_server::{Coordination, CoordinationServer};
use setpoint_api::setpoint::v1::objects_server::{Objects, ObjectsServer};
use setpoint_api::setpoint::v1::watch_event::Type;
use setpoint_client::{Client, ConnectError, Connector, Endpoint, Entropy, Settings, Wire};
use setpoint_types::Epoch;
use setpoint_types::kinds::LeaseStatus;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};
use tower::ServiceExt;

/// What a wire carries.
type Sent = tonic::codegen::http::Request<tonic::body::Body>;
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[derive(Clone, Debug, Default)]
pub struct Lease {
    pub holder: String,
    pub epoch: u64,
    ttl: Duration,
    expires: Option<Instant>,
    changed: u64,
}

#[derive(Default)]
struct State {
    leases: BTreeMap<String, Lease>,
    revision: u64,
    down: bool,
    refuse: bool,
    observed: BTreeMap<String, u64>,
    streams: usize,
}

#[derive(Clone)]
pub struct Server {
    state: Arc<Mutex<State>>,
    changed: watch::Sender<u64>,
}

impl Server {
    pub fn start() -> Self {
        let server = Self { state: Arc::default(), changed: watch::Sender::new(0) };
        server.state.lock().revision = 1;
        let reaper = server.clone();
        tokio::spawn(async move {
            loop {
                sleep(Duration::from_millis(50)).await;
                reaper.expire();
            }
        });
        server
    }

    pub fn client(&self, seed: u64) -> Client {
        let settings = Settings::new(vec!["server".parse().expect("an endpoint")]);
        Client::with_seams(settings, self, Entropy::seeded(seed)).expect("good settings")
    }

    /// Nobody is answered, and streams end.
    pub fn down(&self, down: bool) {
        self.state.lock().down = down;
        self.changed.send_modify(|_| ());
    }

    /// Keep-alives are answered with what is wrong with them.
    pub fn refuse(&self, refuse: bool) {
        self.state.lock().refuse = refuse;
    }

    pub fn lease(&self, name: &str) -> Lease {
        self.state.lock().leases.get(name).cloned().unwrap_or_default()
    }

    /// Ends a hold, as when somebody deletes its object; without a word by the watch, if it is to be quiet.
    pub fn evict(&self, name: &str, quiet: bool) {
        let mut state = self.state.lock();
        state.revision += u64::from(!quiet);
        let revision = state.revision;
        let lease = state.leases.get_mut(name).expect("a lease");
        (lease.holder, lease.expires) = (String::new(), None);
        if !quiet {
            lease.changed = revision;
        }
        drop(state);
        self.changed.send_modify(|_| ());
    }

    pub fn observed(&self) -> BTreeMap<String, u64> {
        self.state.lock().observed.clone()
    }

    /// How many streams of keep-alives were opened.
    pub fn streams(&self) -> usize {
        self.state.lock().streams
    }

    fn expire(&self) {
        let now = Instant::now();
        let over: Vec<String> = {
            let state = self.state.lock();
            let over = state.leases.iter().filter(|(_, lease)| lease.expires.is_some_and(|at| at <= now));
            over.map(|(name, _)| name.clone()).collect()
        };
        for name in over {
            self.evict(&name, false);
        }
    }

    fn up(&self) -> Result<(), Status> {
        if self.state.lock().down { Err(Status::unavailable("down")) } else { Ok(()) }
    }

    /// Takes it if it is free or the same one's already.
    fn take(&self, request: &pb::AcquireRequest) -> pb::AcquireResponse {
        let mut state = self.state.lock();
        let next = state.revision + 1;
        let lease = state.leases.entry(request.lease.clone()).or_default();
        let fresh = lease.holder.is_empty();
        if fresh {
            lease.holder.clone_from(&request.holder);
            (lease.epoch, lease.changed) = (lease.epoch + 1, next);
        }
        let acquired = lease.holder == request.holder;
        if acquired {
            lease.ttl = Duration::from_secs(request.ttl_seconds.into());
            lease.expires = Some(Instant::now() + lease.ttl);
        }
        let answer = pb::AcquireResponse {
            acquired,
            epoch: lease.epoch,
            holder: lease.holder.clone(),
            ttl_seconds: request.ttl_seconds,
            revision: lease.changed,
        };
        if fresh {
            state.revision = next;
            drop(state);
            self.changed.send_modify(|_| ());
        }
        answer
    }

    fn keep(&self, request: pb::KeepAliveRequest) -> pb::KeepAliveResponse {
        let mut state = self.state.lock();
        if state.refuse {
            let error = Some(pb::Error { reason: pb::Reason::Invalid.into(), ..Default::default() });
            let pb::KeepAliveRequest { namespace, lease, .. } = request;
            return pb::KeepAliveResponse { namespace, lease, error, ..Default::default() };
        }
        state.observed = request.observed;
        let lease = state.leases.entry(request.lease.clone()).or_default();
        let held = lease.holder == request.holder && lease.epoch == request.epoch;
        if held {
            lease.expires = Some(Instant::now() + lease.ttl);
        }
        pb::KeepAliveResponse {
            namespace: request.namespace,
            lease: request.lease,
            held,
            epoch: lease.epoch,
            ttl_seconds: lease.ttl.as_secs() as u32,
            error: None,
        }
    }

    /// What changed after a revision, and up to where.
    fn events(&self, after: u64, kind: Type) -> (Vec<pb::WatchEvent>, u64) {
        let state = self.state.lock();
        let changed = state.leases.iter().filter(|(_, lease)| lease.changed > after);
        (changed.map(|(name, lease)| event(name, lease, kind)).collect(), state.revision)
    }
}

fn event(name: &str, lease: &Lease, kind: Type) -> pb::WatchEvent {
    let status = LeaseStatus {
        holder: lease.holder.clone(),
        epoch: Epoch(lease.epoch),
        ttl_seconds: lease.ttl.as_secs() as u32,
        ..LeaseStatus::default()
    };
    let metadata = pb::Metadata {
        namespace: "default".into(),
        name: name.into(),
        uid: format!("u-{name}"),
        revision: lease.changed,
        ..Default::default()
    };
    let object = pb::Object {
        kind: "Lease".into(),
        metadata: Some(metadata),
        spec: "{}".into(),
        status: serde_json::to_vec(&status).expect("JSON").into(),
    };
    pb::WatchEvent {
        r#type: kind.into(),
        object: Some(object),
        revision: lease.changed,
        ..Default::default()
    }
}

fn bookmark(revision: u64, initial_state_end: bool) -> pb::WatchEvent {
    pb::WatchEvent { r#type: Type::Bookmark.into(), revision, initial_state_end, ..Default::default() }
}

impl Connector for Server {
    fn connect(&self, _: &Endpoint) -> Result<Wire, ConnectError> {
        let routes = tonic::service::Routes::new(ObjectsServer::new(self.clone()))
            .add_service(CoordinationServer::new(self.clone()));
        Ok(Wire::new(ServiceExt::<Sent>::map_err(routes, |never| match never {})))
    }
}

#[tonic::async_trait]
impl Coordination for Server {
    async fn acquire(
        &self,
        request: Request<pb::AcquireRequest>,
    ) -> Result<Response<pb::AcquireResponse>, Status> {
        let request = request.into_inner();
        let deadline = Instant::now() + Duration::from_millis(request.wait_ms.into());
        let mut changes = self.changed.subscribe();
        loop {
            changes.mark_unchanged();
            self.up()?;
            let answer = self.take(&request);
            if answer.acquired || timeout_at(deadline, changes.changed()).await.is_err() {
                return Ok(Response::new(answer));
            }
        }
    }

    type KeepAliveStream = Answers<pb::KeepAliveResponse>;

    async fn keep_alive(
        &self,
        request: Request<Streaming<pb::KeepAliveRequest>>,
    ) -> Result<Response<Self::KeepAliveStream>, Status> {
        self.up()?;
        self.state.lock().streams += 1;
        let server = self.clone();
        let answers = request.into_inner().map(move |asked| {
            server.up()?;
            asked.map(|asked| server.keep(asked))
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn release(
        &self,
        request: Request<pb::ReleaseRequest>,
    ) -> Result<Response<pb::ReleaseResponse>, Status> {
        self.up()?;
        let request = request.into_inner();
        let lease = self.lease(&request.lease);
        let released = lease.holder == request.holder && lease.epoch == request.epoch;
        if released {
            self.evict(&request.lease, false);
        }
        Ok(Response::new(pb::ReleaseResponse { released, revision: self.state.lock().revision }))
    }

    async fn holders(&self, _: Request<pb::HoldersRequest>) -> Result<Response<pb::HoldersResponse>, Status> {
        Err(Status::unimplemented("not on this stage"))
    }
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
    type WatchStream = Answers<pb::WatchResponse>;

    fn watch<'a: 'f, 'f>(
        &'a self,
        request: Request<pb::WatchRequest>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Self::WatchStream>, Status>> + Send + 'f>>
    where
        Self: 'f,
    {
        Box::pin(async move {
            self.up()?;
            let (answers, receiver) = mpsc::channel(16);
            let request = request.into_inner();
            let (server, mut changes) = (self.clone(), self.changed.subscribe());
            tokio::spawn(async move {
                let mut at = request.from_revision;
                let mut first = request.initial_state;
                while server.up().is_ok() {
                    changes.mark_unchanged();
                    let kind = if first { Type::Added } else { Type::Modified };
                    let (mut events, now) = server.events(at, kind);
                    events.sort_by_key(|event| event.revision);
                    events.push(bookmark(now, first));
                    (at, first) = (now, false);
                    if answers.send(Ok(pb::WatchResponse { events })).await.is_err() {
                        return;
                    }
                    let quiet = Instant::now() + Duration::from_secs(1);
                    let _ = timeout_at(quiet, changes.changed()).await;
                }
            });
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
