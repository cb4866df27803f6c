//! The HTTP listener: health and metrics, and nothing that anybody has to be kept from.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::metrics::AgentMetrics;
use crate::node::hold::Held;

/// What answers are made of.
#[derive(Clone)]
pub struct Shared {
    pub metrics: Arc<AgentMetrics>,
    /// None: there are many, and `ready` speaks for them.
    pub lease: Option<watch::Receiver<Option<Held>>>,
    /// Caches have their first state, and the node is registered.
    pub ready: watch::Receiver<bool>,
}

pub async fn serve(listener: TcpListener, shared: Shared, stop: CancellationToken) -> std::io::Result<()> {
    let routes = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/version", get(|| async { concat!(env!("CARGO_PKG_VERSION"), "\n") }))
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
