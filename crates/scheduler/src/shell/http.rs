//! The HTTP listener: metrics and health.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What is shown.
#[derive(Clone)]
pub struct Shown {
    pub registry: Arc<Mutex<Registry>>,
    /// The caches have their first state.
    pub ready: watch::Receiver<bool>,
}

pub async fn serve(listener: TcpListener, shown: Shown, stop: CancellationToken) -> io::Result<()> {
    let routes = Router::new()
        .route("/livez", get(async || "ok"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(scrape))
        .with_state(shown);
    axum::serve(listener, routes).with_graceful_shutdown(stop.cancelled_owned()).await
}

async fn readyz(State(shown): State<Shown>) -> Response {
    match *shown.ready.borrow() {
        true => "ok".into_response(),
        false => (StatusCode::SERVICE_UNAVAILABLE, "the caches have no state yet").into_response(),
    }
}

async fn scrape(State(shown): State<Shown>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &shown.registry.lock()) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
