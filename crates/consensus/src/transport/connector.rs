//! From a peer's address to a channel, and the matching settings of a peer listener.
//!
//! A seam: a simulation or a test replaces the network here, and TLS is configured here.

use std::time::Duration;

use tonic::transport::{Channel, ClientTlsConfig, Endpoint, Server};

/// Why a connection exists. Each purpose has its own, so that none waits behind the bytes of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Heartbeats, votes, leadership transfer, joining: small and urgent.
    Control,
    /// Log entries.
    Replication,
    /// Whole states.
    Snapshot,
    /// Commands and questions for the leader.
    Forward,
}

#[derive(Debug, thiserror::Error)]
#[error("no connection can be made to {address:?}")]
pub struct ConnectError {
    pub address: String,
    #[source]
    pub source: tonic::transport::Error,
}

pub trait Connector: Send + Sync + 'static {
    /// A channel that connects when it is first used and again whenever the connection is lost. Must not block.
    fn connect(&self, address: &str, lane: Lane) -> Result<Channel, ConnectError>;
}

/// Connects over TCP, with TLS if configured.
#[derive(Clone, Debug, Default)]
pub struct TcpConnector {
    tls: Option<ClientTlsConfig>,
}

const CONNECT_PATIENCE: Duration = Duration::from_secs(1);
/// A peer that vanished without a word is noticed after about the sum of the two.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(2);
const KEEP_ALIVE_PATIENCE: Duration = Duration::from_secs(3);
/// Lets a stream run at full speed over a link of some milliseconds.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;
/// Entries and chunks are large and have their connections to themselves: fewer frames are less work.
const FRAME_BYTES_MAX: u32 = 256 << 10;

impl TcpConnector {
    pub fn new(tls: Option<ClientTlsConfig>) -> Self {
        Self { tls }
    }

    fn endpoint(&self, address: &str) -> Result<Endpoint, tonic::transport::Error> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))?
            .connect_timeout(CONNECT_PATIENCE)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE_EVERY)
            .keep_alive_timeout(KEEP_ALIVE_PATIENCE)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        match &self.tls {
            Some(tls) => endpoint.tls_config(tls.clone()),
            None => Ok(endpoint),
        }
    }
}

impl Connector for TcpConnector {
    fn connect(&self, address: &str, _lane: Lane) -> Result<Channel, ConnectError> {
        match self.endpoint(address) {
            Ok(endpoint) => Ok(endpoint.connect_lazy()),
            Err(source) => Err(ConnectError { address: address.to_owned(), source }),
        }
    }
}

/// A server with the settings a peer listener should have; the caller adds TLS, the service and the socket.
pub fn peer_listener() -> Server {
    Server::builder()
        .tcp_nodelay(true)
        .http2_keepalive_interval(Some(KEEP_ALIVE_EVERY))
        .http2_keepalive_timeout(Some(KEEP_ALIVE_PATIENCE))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_BYTES_MAX)
}
