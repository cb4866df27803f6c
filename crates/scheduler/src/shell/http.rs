//! The HTTP listener: metrics and health.

use std::io;
use std::net::SocketAddr;
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

/// The address is somebody else's, or no address of this host.
#[derive(Debug, thiserror::Error)]
#[error(
    "{address} cannot be listened on; choose another address with --listen-http or SETPOINT_SCHEDULER_LISTEN_HTTP"
)]
pub struct ListenError {
    address: SocketAddr,
    #[source]
    source: io::Error,
}

pub async fn listen(address: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address).await.map_err(|source| ListenError { address, source })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_that_is_taken_is_named_with_the_setting_that_changes_it() {
        let first = listen("127.0.0.1:0".parse().expect("an address")).await.expect("a free port");
        let address = first.local_addr().expect("bound");
        let error = listen(address).await.expect_err("it is taken").to_string();
        assert!(error.contains(&address.to_string()) && error.contains("--listen-http"), "{error}");
    }
}
