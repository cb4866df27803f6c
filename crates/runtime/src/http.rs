//! What a manager shows over HTTP: `/metrics`, `/livez`, `/readyz`.
//!
//! The address is taken when the manager is made, so that a port that another program has is told of before anything is done, and
//! served while the manager runs. Plain HTTP: it shows nothing that is secret, and is meant for the network that scrapers are on.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::Listener;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::informer::Informers;

/// Scrapers and supervisors come one at a time. Further connections are closed at once.
const CONNECTIONS_MAX: usize = 64;
/// Between two attempts while the system can open nothing.
const PAUSE: Duration = Duration::from_millis(50);

/// What is shown.
#[derive(Clone)]
pub(crate) struct Shown {
    pub registry: Arc<Mutex<Registry>>,
    pub informers: Informers,
    pub ready: watch::Receiver<bool>,
}

/// An address that is taken, and what is to be served there.
pub(crate) struct Http {
    listener: std::net::TcpListener,
    address: SocketAddr,
    shown: Shown,
}

impl Http {
    pub fn bind(address: SocketAddr, shown: Shown) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, shown })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until what it returns is dropped.
    pub fn start(&self) -> io::Result<DropGuard> {
        let door = Door {
            listener: TcpListener::from_std(self.listener.try_clone()?)?,
            places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        };
        let routes = Router::new()
            .route("/metrics", get(scrape))
            .route("/livez", get(|| async { "ok\n" }))
            .route("/readyz", get(readyz))
            .with_state(self.shown.clone());
        let stop = CancellationToken::new();
        let served = axum::serve(door, routes).with_graceful_shutdown(stop.clone().cancelled_owned());
        tokio::spawn(served.into_future());
        tracing::info!(address = %self.address, "metrics and health are served");
        Ok(stop.drop_guard())
    }
}

/// All metrics, in the format of OpenMetrics.
pub(crate) fn encode(registry: &Mutex<Registry>) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry.lock())
        .expect("a String takes whatever is written");
    text
}

async fn scrape(State(shown): State<Shown>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], encode(&shown.registry)).into_response()
}

/// The caches are synced and the controllers work or stand by.
async fn readyz(State(shown): State<Shown>) -> Response {
    if *shown.ready.borrow() {
        return "ok\n".into_response();
    }
    let unsynced: Vec<_> = shown.informers.unsynced().iter().map(ToString::to_string).collect();
    let problem = match unsynced.is_empty() {
        true => "the controllers are starting or stopping".to_owned(),
        false => format!("waiting for the first state of {}", unsynced.join(", ")),
    };
    (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {problem}\n")).into_response()
}

/// Lets in so many connections at a time.
struct Door {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

impl Listener for Door {
    type Io = Guest;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Guest, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((socket, address)) => {
                    if let Ok(place) = self.places.clone().try_acquire_owned() {
                        return (Guest { socket, _place: place }, address);
                    }
                    tracing::debug!(%address, "too many connections: this one is closed");
                }
                Err(error) => {
                    tracing::debug!(%error, "a connection cannot be accepted");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection, and its place.
struct Guest {
    socket: TcpStream,
    _place: OwnedSemaphorePermit,
}

impl AsyncRead for Guest {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for Guest {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
