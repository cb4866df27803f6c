//! The work, done by our runtime.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::{BufMut, Bytes, BytesMut};
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::{StreamExt, stream};
use http_body_util::StreamBody;
use prost::Message;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::watch_event::Type;
use setpoint_client::{Client, ConnectError, Connector, Endpoint, Entropy, Settings, Wire};
use setpoint_runtime::informer::{InformerSettings, Informers, Selection};
use setpoint_runtime::queue::{self, Outcome, Priority, Queue, Seams, Tenant, TenantOf};
use setpoint_types::Revision;
use tonic::body::Body;

use crate::measure::{Figures, Stopwatch, resident_bytes};
use crate::objects::{Draft, EVENTS, OBJECTS};

/// Events in one answer, as the server sends them when it has many.
const ANSWER: usize = 64;
/// The revision of the initial state.
pub const STATE: u64 = 1_000_000;

/// A watch of objects becomes a cache.
pub async fn ingest() -> Result<Figures, Box<dyn std::error::Error>> {
    let changes =
        (1..=EVENTS as u64).map(|n| event(Type::Modified, (n as usize * 7919) % OBJECTS, STATE + n));
    let changes = frames(changes);
    let (client, _later) = serving([initial(), changes].concat())?;

    let before = resident_bytes();
    let stopwatch = Stopwatch::start();
    let informers = Informers::new(client, InformerSettings::default());
    let cache = informers.dynamic("Replica", true, Selection::everywhere());
    cache.synced().await?;
    let initial = stopwatch.rate(OBJECTS);
    let grown = resident_bytes().saturating_sub(before);
    let memory = grown as f64 / cache.encoded_bytes() as f64;
    let stopwatch = Stopwatch::start();
    // Some may have come with the state.
    let left = STATE + EVENTS as u64 - cache.revision().unwrap_or_default().get();
    cache.at_least(Revision::new(STATE + EVENTS as u64)).await?;
    let events = stopwatch.rate(usize::try_from(left)?);
    assert_eq!(cache.len(), OBJECTS);
    informers.shutdown().await;
    Ok([("initial", initial), ("events", events), ("memory", memory)].map(|(k, v)| (k.to_owned(), v)).into())
}

/// Every key is in the queue all the time.
pub async fn queue() -> Figures {
    const CYCLES: usize = 3_000_000;
    let keys: Vec<Arc<str>> =
        (0..OBJECTS).map(|n| format!("tenant-{:04}/object-{n:06}", n % 1000).into()).collect();
    let tenants = TenantOf::new(|key: &Arc<str>| Tenant::named(key.split('/').next().unwrap_or_default()));
    // Without the limit on starts, which is what would be measured.
    let settings = queue::Settings { starts_per_second: 0, ..queue::Settings::default() };
    let options = settings.check().expect("within bounds");
    let queue = Queue::new(options, tenants, Seams::tokio(1));
    for key in keys {
        queue.try_add(key, Priority::Normal).expect("room for all");
    }
    let stopwatch = Stopwatch::start();
    for _ in 0..CYCLES {
        let running = queue.next().await.expect("not shut down");
        let key = (**running.key()).clone();
        running.finish(Outcome::Done);
        queue.try_add(key, Priority::Normal).expect("room for all");
    }
    [("cycles".to_owned(), stopwatch.rate(CYCLES))].into()
}

pub fn event(kind: Type, number: usize, revision: u64) -> pb::WatchEvent {
    let draft = Draft::new(number);
    let metadata = pb::Metadata {
        namespace: draft.namespace,
        name: draft.name,
        uid: draft.uid,
        revision,
        generation: 1,
        labels: [("app".to_owned(), draft.app)].into(),
        owners: vec![pb::OwnerReference {
            kind: "Workload".into(),
            name: "web".into(),
            uid: draft.owner,
            ..pb::OwnerReference::default()
        }],
        ..pb::Metadata::default()
    };
    let spec = format!(r#"{{"node":"{}","filler":"{}"}}"#, draft.node, draft.filler);
    let object = pb::Object {
        kind: "Replica".into(),
        metadata: Some(metadata),
        spec: spec.into(),
        ..pb::Object::default()
    };
    let author = pb::Author { principal: "user:jane".into(), ..pb::Author::default() };
    pb::WatchEvent {
        r#type: kind.into(),
        object: Some(object),
        revision,
        author: Some(author),
        ..pb::WatchEvent::default()
    }
}

/// All objects, as they come first.
pub fn initial() -> Vec<Bytes> {
    let state = (0..OBJECTS).map(|number| event(Type::Added, number, 2 + number as u64));
    let end = pb::WatchEvent {
        r#type: Type::Bookmark.into(),
        revision: STATE,
        initial_state_end: true,
        ..pb::WatchEvent::default()
    };
    frames(state.chain([end]))
}

/// A client of a server that answers with these, and with what is sent later.
pub fn serving(frames: Vec<Bytes>) -> Result<(Client, UnboundedSender<Bytes>), Box<dyn std::error::Error>> {
    let (sender, later) = unbounded();
    let server = Server { frames: Arc::new(frames), later: Arc::new(Mutex::new(Some(later))) };
    let settings = Settings::new(vec!["in-this-process".parse()?]);
    Ok((Client::with_seams(settings, &server, Entropy::seeded(1))?, sender))
}

/// Answers as gRPC frames them.
pub fn frames(events: impl Iterator<Item = pb::WatchEvent>) -> Vec<Bytes> {
    let mut events = events.peekable();
    let mut frames = Vec::new();
    while events.peek().is_some() {
        let answer = pb::WatchResponse { events: events.by_ref().take(ANSWER).collect() };
        let mut frame = BytesMut::with_capacity(5 + answer.encoded_len());
        frame.put_u8(0);
        frame.put_u32(u32::try_from(answer.encoded_len()).expect("an answer is small"));
        answer.encode(&mut frame).expect("there is room");
        frames.push(frame.freeze());
    }
    frames
}

/// Answers every request with the same stream, which stays open. The first watch is also told what comes later.
#[derive(Clone)]
struct Server {
    frames: Arc<Vec<Bytes>>,
    later: Arc<Mutex<Option<UnboundedReceiver<Bytes>>>>,
}

impl Connector for Server {
    fn connect(&self, _: &Endpoint) -> Result<Wire, ConnectError> {
        let Self { frames, later } = self.clone();
        Ok(Wire::new(tower::service_fn(move |request: http::Request<Body>| {
            let is_watch = request.uri().path().ends_with("/Watch");
            let later = later.lock().ok().filter(|_| is_watch).and_then(|mut later| later.take());
            let frames = frames.clone();
            async move {
                let sent = stream::iter((0..frames.len()).map(move |n| frames[n].clone()));
                let sent = sent.chain(stream::iter(later).flatten()).map(http_body::Frame::data).map(Ok);
                let body = StreamBody::new(sent.chain(stream::pending::<Result<_, Infallible>>()));
                let response = http::Response::builder().header("content-type", "application/grpc");
                Ok(response.body(Body::new(body)).expect("a plain header"))
            }
        })))
    }
}
