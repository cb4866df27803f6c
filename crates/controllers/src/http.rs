//! Health and metrics over HTTP.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use setpoint_runtime::Manager;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub(crate) async fn serve(
    listener: TcpListener,
    manager: Arc<Manager>,
    stop: CancellationToken,
) -> io::Result<()> {
    let routes = Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(manager);
    axum::serve(listener, routes).with_graceful_shutdown(stop.cancelled_owned()).await
}

/// The caches are synced and the controllers run, here or as a standby.
async fn readyz(State(manager): State<Arc<Manager>>) -> Response {
    match *manager.ready().borrow() {
        true => "ok\n".into_response(),
        false => {
            let problem = "not ready: the caches are not synced, or it is stopping\n";
            (StatusCode::SERVICE_UNAVAILABLE, problem).into_response()
        }
    }
}

async fn metrics(State(manager): State<Arc<Manager>>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], manager.metrics()).into_response()
}
