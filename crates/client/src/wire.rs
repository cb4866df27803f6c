//! The network: what carries requests to one endpoint. A seam, which tests and simulations replace.

use std::sync::Arc;
use std::time::Duration;

use tonic::body::Body;
use tonic::transport::{self, Certificate, ClientTlsConfig};
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

use crate::endpoint::Endpoint;
use crate::settings::{Settings, Tls};

/// Carries gRPC calls to one endpoint. Cheap to clone; clones share the connection.
pub type Wire = BoxCloneSyncService<http::Request<Body>, http::Response<Body>, WireError>;

/// The request did not come through, as far as the wire knows.
#[derive(Debug, thiserror::Error)]
#[error("the connection failed")]
pub struct WireError(#[source] Box<dyn std::error::Error + Send + Sync>);

impl WireError {
    pub fn new(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}

/// Makes wires. The real one is [`Network`]; a test may hand out a server in its own process.
///
/// **A wire** connects when it is first used, again after it broke, and fails a request rather than keep it waiting for a
/// connection for ever. A failure before anything was sent and a failure after it look the same to the client, but for one: an
/// [`std::io::ErrorKind::ConnectionRefused`] among the causes says that nobody listens there, and that nothing was sent.
pub trait Connector: Send + Sync + 'static {
    fn connect(&self, endpoint: &Endpoint) -> Result<Wire, ConnectError>;

    /// Further wires to an endpoint, each with a connection of its own: for streams that somebody may not read for a while. None:
    /// what is not read holds up nothing else on the wire that there is.
    fn apart(&self, _: &Endpoint) -> Option<Apart> {
        None
    }
}

/// Makes wires to one endpoint.
pub type Apart = Arc<dyn Fn() -> Result<Wire, ConnectError> + Send + Sync>;

/// A wire could not even be prepared: the settings are wrong.
#[derive(Debug, thiserror::Error)]
#[error("no connection to {endpoint} can be prepared")]
pub struct ConnectError {
    endpoint: Endpoint,
    #[source]
    source: transport::Error,
}

/// Connections over TCP, with TLS for `https`. **Does not promise** to notice a dead peer before a request fails by its deadline, or a
/// stream by its silence.
#[derive(Clone, Debug)]
pub struct Network {
    connect_timeout: Duration,
    tls: Option<Tls>,
}

/// A connection on which nothing comes back, not even the answer to a ping, is dead after both together.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

impl Network {
    pub fn new(settings: &Settings) -> Self {
        Self { connect_timeout: settings.timeouts.connect, tls: settings.tls.clone() }
    }

    fn channel(&self, endpoint: &Endpoint) -> Result<transport::Channel, transport::Error> {
        let mut channel = transport::Endpoint::from_shared(endpoint.as_str().to_owned())?
            .connect_timeout(self.connect_timeout)
            .http2_keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true)
            // Whole lists and initial states are sent at once; the default window would make each a dozen round trips.
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(16 << 20)
            .tcp_nodelay(true);
        if let (true, Some(tls)) = (endpoint.is_secure(), &self.tls) {
            channel = channel.tls_config(tls_config(tls))?;
        }
        Ok(channel.connect_lazy())
    }
}

impl Connector for Network {
    fn connect(&self, endpoint: &Endpoint) -> Result<Wire, ConnectError> {
        let channel =
            self.channel(endpoint).map_err(|source| ConnectError { endpoint: endpoint.clone(), source })?;
        Ok(Wire::new(channel.map_err(WireError::new)))
    }

    fn apart(&self, endpoint: &Endpoint) -> Option<Apart> {
        let (network, endpoint) = (self.clone(), endpoint.clone());
        Some(Arc::new(move || network.connect(&endpoint)))
    }
}

fn tls_config(tls: &Tls) -> ClientTlsConfig {
    let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&tls.authority));
    if let Some(identity) = &tls.identity {
        config = config.identity(transport::Identity::from_pem(&identity.certificate, &identity.key));
    }
    if let Some(name) = &tls.server_name {
        config = config.domain_name(name);
    }
    config
}

/// The same wire with the token on every request.
pub(crate) fn with_token(wire: Wire, token: http::HeaderValue) -> Wire {
    Wire::new(wire.map_request(move |mut request: http::Request<Body>| {
        request.headers_mut().insert(http::header::AUTHORIZATION, token.clone());
        request
    }))
}
