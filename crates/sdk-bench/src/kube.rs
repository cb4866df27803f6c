//! The same work, done by kube-rs's runtime.
//!
//! Objects are read into a type with plain fields, which is what suits it best: as untyped objects they would take more time and
//! memory.

use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http_body_util::StreamBody;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_client::core::Resource;
use kube_client::core::object::HasSpec;
use kube_client::{Api, Client};
use kube_runtime::scheduler::{ScheduleRequest, scheduler};
use kube_runtime::{reflector, watcher};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::measure::{Figures, Stopwatch, resident_bytes};
use crate::objects::{Draft, EVENTS, OBJECTS};

/// As the client asks for by default.
const PAGE: usize = 500;
const STATE: u64 = 1_000_000;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Replica {
    metadata: ObjectMeta,
    spec: Spec,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Spec {
    node: String,
    filler: String,
}

impl Resource for Replica {
    type DynamicType = ();
    type Scope = kube_client::core::NamespaceResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "Replica".into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        "example.io".into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        "replicas".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl HasSpec for Replica {
    type Spec = Spec;

    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn spec_mut(&mut self) -> &mut Spec {
        &mut self.spec
    }
}

/// A list and a watch become a store.
pub async fn ingest() -> Result<Figures, Box<dyn std::error::Error>> {
    let pages: Vec<Bytes> = (0..OBJECTS / PAGE).map(page).collect();
    let changes: Vec<Bytes> = (1..=EVENTS as u64)
        .map(|n| {
            let object = object((n as usize * 7919) % OBJECTS, STATE + n);
            Bytes::from(json!({"type": "MODIFIED", "object": object}).to_string() + "\n")
        })
        .collect();
    let encoded: usize = pages.iter().map(Bytes::len).sum();
    let client = Client::new(server(Arc::new(pages), Arc::new(changes)), "default");
    let api: Api<Replica> = Api::all(client);

    let before = resident_bytes();
    let stopwatch = Stopwatch::start();
    let (reader, writer) = reflector::store();
    let mut events = pin!(reflector(writer, watcher(api, watcher::Config::default())));
    loop {
        let event = events.next().await.ok_or("the stream ended")??;
        if matches!(event, watcher::Event::InitDone) {
            break;
        }
    }
    let initial = stopwatch.rate(OBJECTS);
    let memory = resident_bytes().saturating_sub(before) as f64 / encoded as f64;
    let stopwatch = Stopwatch::start();
    for _ in 0..EVENTS {
        events.next().await.ok_or("the stream ended")??;
    }
    let changed = stopwatch.rate(EVENTS);
    assert_eq!(reader.len(), OBJECTS);
    Ok([("initial", initial), ("events", changed), ("memory", memory)].map(|(k, v)| (k.to_owned(), v)).into())
}

/// Every key is scheduled all the time. That a key has been finished is not the scheduler's business: it does less than a queue.
pub async fn queue() -> Figures {
    const CYCLES: usize = 1_000_000;
    let now = tokio::time::Instant::now();
    let (asks, requests) = futures::channel::mpsc::unbounded();
    let ask = |key: Arc<str>| {
        asks.unbounded_send(ScheduleRequest { message: key, run_at: now }).expect("somebody takes requests");
    };
    (0..OBJECTS).for_each(|n| ask(format!("tenant-{:04}/object-{n:06}", n % 1000).into()));
    let mut scheduled = pin!(scheduler(requests));
    let stopwatch = Stopwatch::start();
    for _ in 0..CYCLES {
        let key = scheduled.next().await.expect("there are always keys");
        ask(key);
    }
    [("cycles".to_owned(), stopwatch.rate(CYCLES))].into()
}

fn object(number: usize, revision: u64) -> serde_json::Value {
    let draft = Draft::new(number);
    json!({
        "apiVersion": "example.io/v1",
        "kind": "Replica",
        "metadata": {
            "namespace": draft.namespace,
            "name": draft.name,
            "uid": draft.uid,
            "resourceVersion": revision.to_string(),
            "generation": 1,
            "labels": {"app": draft.app},
            "ownerReferences": [{"apiVersion": "example.io/v1", "kind": "Workload", "name": "web", "uid": draft.owner}],
        },
        "spec": {"node": draft.node, "filler": draft.filler},
    })
}

fn page(number: usize) -> Bytes {
    let items: Vec<_> = (number * PAGE..(number + 1) * PAGE).map(|n| object(n, 2 + n as u64)).collect();
    let next = if (number + 1) * PAGE < OBJECTS { (number + 1).to_string() } else { String::new() };
    let list = json!({
        "apiVersion": "example.io/v1",
        "kind": "ReplicaList",
        "metadata": {"resourceVersion": STATE.to_string(), "continue": next},
        "items": items,
    });
    list.to_string().into()
}

type Frames = stream::BoxStream<'static, Result<http_body::Frame<Bytes>, Infallible>>;

/// A list in pages, then a watch that stays open.
fn server(
    pages: Arc<Vec<Bytes>>,
    changes: Arc<Vec<Bytes>>,
) -> impl tower::Service<
    http::Request<kube_client::client::Body>,
    Response = http::Response<StreamBody<Frames>>,
    Error = Infallible,
    Future: Send + 'static,
> + Send
+ 'static {
    tower::service_fn(move |request: http::Request<kube_client::client::Body>| {
        let (pages, changes) = (pages.clone(), changes.clone());
        async move {
            let query = request.uri().query().unwrap_or_default();
            let frame = |bytes: &Bytes| Ok(http_body::Frame::data(bytes.clone()));
            let frames: Frames = if query.contains("watch=true") {
                let sent = (0..changes.len()).map(move |n| frame(&changes[n]));
                stream::iter(sent).chain(stream::pending()).boxed()
            } else {
                let token = query.split('&').find_map(|it| it.strip_prefix("continue="));
                let number: usize = token.and_then(|it| it.parse().ok()).unwrap_or(0);
                stream::iter([frame(&pages[number])]).boxed()
            };
            Ok(http::Response::new(StreamBody::new(frames)))
        }
    })
}
