//! The HTTP listener: health, metrics, and what replicas wrote.
//!
//! Whoever reaches it reads logs. It listens on the loopback unless told otherwise; with a token file, logs are for those who
//! show the token.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use futures::stream::StreamExt;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use crate::logs::{LogQuery, Reader, docker_stream};
use crate::metrics::AgentMetrics;
use crate::node::hold::Held;
use crate::record::{Record, Records};
use crate::runtime::RunId;
use crate::runtime::docker::DockerRuntime;
use crate::runtime::process::ProcessRuntime;

/// So many may read logs at a time; the next is told to come again.
const READERS_MAX: usize = 64;

/// Between two looks at a log that is followed.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);

/// What answers are made of.
#[derive(Clone)]
pub struct Shared {
    pub metrics: Arc<AgentMetrics>,
    /// None: there are many, and `ready` speaks for them.
    pub lease: Option<watch::Receiver<Option<Held>>>,
    /// Caches have their first state, and the node is registered.
    pub ready: watch::Receiver<bool>,
    pub records: Option<Records>,
    pub processes: Option<ProcessRuntime>,
    pub docker: Option<Arc<DockerRuntime>>,
    /// Whoever asks for logs has to show it.
    pub token: Option<String>,
    pub readers: Arc<Semaphore>,
}

impl Shared {
    /// Only health and metrics.
    pub fn without_logs(
        metrics: Arc<AgentMetrics>,
        lease: Option<watch::Receiver<Option<Held>>>,
        ready: watch::Receiver<bool>,
    ) -> Self {
        let readers = Arc::new(Semaphore::new(READERS_MAX));
        Self { metrics, lease, ready, records: None, processes: None, docker: None, token: None, readers }
    }
}

pub async fn serve(listener: TcpListener, shared: Shared, stop: CancellationToken) -> std::io::Result<()> {
    let routes = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/version", get(|| async { concat!(env!("CARGO_PKG_VERSION"), "\n") }))
        .route("/v1/logs/{namespace}/{replica}", get(logs))
        .with_state(shared);
    axum::serve(listener, routes).with_graceful_shutdown(stop.cancelled_owned()).await
}

/// The node can be given replicas: it is registered, its lease is held, and it sees what is bound to it.
async fn readyz(State(shared): State<Shared>) -> Response {
    let held = shared.lease.as_ref().is_none_or(|lease| lease.borrow().is_some());
    let problem = match (held, *shared.ready.borrow()) {
        (false, _) => "the node's lease is not held",
        (true, false) => "not registered, or not everything was seen yet",
        (true, true) => return "ok\n".into_response(),
    };
    (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {problem}\n")).into_response()
}

async fn metrics(State(shared): State<Shared>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], shared.metrics.text()).into_response()
}

async fn logs(
    State(shared): State<Shared>,
    Path((namespace, replica)): Path<(String, String)>,
    Query(query): Query<LogQuery>,
    headers: HeaderMap,
) -> Response {
    if !is_permitted(shared.token.as_deref(), &headers) {
        return (StatusCode::UNAUTHORIZED, "show the agent's token: authorization: Bearer\n").into_response();
    }
    let Ok(permit) = shared.readers.clone().try_acquire_owned() else {
        return (StatusCode::TOO_MANY_REQUESTS, "too many read logs here: try again\n").into_response();
    };
    let found = shared.records.as_ref().and_then(|records| records.find(&namespace, &replica));
    let Some(record) = found else {
        let text = format!("no replica {namespace}/{replica} is, or was, on this node\n");
        return (StatusCode::NOT_FOUND, text).into_response();
    };
    if record.spec.template.image.is_some() {
        return match &shared.docker {
            Some(docker) => {
                let run = newest(&record);
                let lines = docker_stream(docker.engine(), &DockerRuntime::container(&run), &query);
                // The permit goes with the stream.
                let lines = lines.map(move |line| {
                    let _ = &permit;
                    Ok::<_, std::convert::Infallible>(line)
                });
                plain(Body::from_stream(lines))
            }
            None => (StatusCode::NOT_FOUND, "there is no Docker engine\n").into_response(),
        };
    }
    let Some(processes) = shared.processes.clone() else { return StatusCode::NOT_FOUND.into_response() };
    let (sender, receiver) = mpsc::channel::<Result<Bytes, std::convert::Infallible>>(4);
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        follow(&processes, &record, query, &sender);
    });
    plain(Body::from_stream(ReceiverStream::new(receiver)))
}

fn plain(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response()
}

fn newest(record: &Record) -> RunId {
    RunId { replica: record.uid.clone(), number: record.memory.number }
}

/// Sends until all is sent, or nobody reads.
fn follow(
    processes: &ProcessRuntime,
    record: &Record,
    query: LogQuery,
    sender: &mpsc::Sender<Result<Bytes, std::convert::Infallible>>,
) {
    let last = record.memory.number;
    let runs = (last.saturating_sub(1).max(1)..=last)
        .map(|number| processes.folder(&RunId { number, ..newest(record) }).path().to_owned());
    let (runs, follow) = (runs.collect(), query.follow);
    let mut reader = Reader::new(runs, query);
    loop {
        // Looked at first: what is written between the look and the read is then read.
        let over = reader.is_over();
        while let Some(lines) = reader.more() {
            if sender.blocking_send(Ok(lines.into())).is_err() {
                return;
            }
        }
        if over || !follow || sender.is_closed() {
            return;
        }
        std::thread::sleep(FOLLOW_EVERY);
    }
}

/// Compared by digest, so that the time it takes tells nothing of the token.
fn is_permitted(token: Option<&str>, headers: &HeaderMap) -> bool {
    let Some(token) = token else { return true };
    let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = shown.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    Sha256::digest(shown) == Sha256::digest(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_for_those_who_show_the_token() {
        let shown = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().expect("a value"));
            headers
        };
        assert!(is_permitted(None, &HeaderMap::new()));
        assert!(is_permitted(Some("secret"), &shown("Bearer secret")));
        assert!(!is_permitted(Some("secret"), &shown("Bearer other")));
        assert!(!is_permitted(Some("secret"), &HeaderMap::new()));
    }
}
