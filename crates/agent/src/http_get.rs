//! A GET over HTTP/1.1: all that probes and artifacts need of a client.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, Uri, header};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum GetError {
    #[error("{0} is not a URL that can be asked: it needs http:// or https://, and a host")]
    Url(Uri),
    #[error("{host} cannot be reached")]
    Connect {
        host: String,
        #[source]
        source: io::Error,
    },
    #[error("{host} does not speak HTTP as expected")]
    Exchange {
        host: String,
        #[source]
        source: hyper::Error,
    },
    #[error(
        "no authority is known that vouches for {host}: name a file of certificates with --artifact-authorities"
    )]
    NoAuthority { host: String },
}

/// Asks over HTTP, and over HTTPS if it knows authorities.
#[derive(Clone, Default)]
pub struct Getter {
    tls: Option<TlsConnector>,
}

impl Getter {
    /// Trusts the authorities of a PEM file. What cannot be read there is left out; an empty result trusts nobody.
    pub fn trusting(authorities: &Path) -> Self {
        let mut roots = RootCertStore::empty();
        let certificates = CertificateDer::pem_file_iter(authorities).into_iter().flatten().flatten();
        roots.add_parsable_certificates(certificates);
        if roots.is_empty() {
            return Self::default();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map(|config| config.with_root_certificates(roots).with_no_client_auth());
        Self { tls: config.ok().map(|config| TlsConnector::from(Arc::new(config))) }
    }

    /// The answer to a GET, whatever its status. No redirection is followed.
    pub async fn get(&self, uri: &Uri) -> Result<Response<Incoming>, GetError> {
        let wrong = || GetError::Url(uri.clone());
        let host = uri.host().ok_or_else(wrong)?.trim_start_matches('[').trim_end_matches(']').to_owned();
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong()),
        };
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let unreachable = |source| GetError::Connect { host: host.clone(), source };
        let stream = TcpStream::connect((host.as_str(), port)).await.map_err(unreachable)?;
        if !secure {
            return exchange(stream, uri, &host).await;
        }
        let tls = self.tls.as_ref().ok_or_else(|| GetError::NoAuthority { host: host.clone() })?;
        let name = ServerName::try_from(host.clone()).map_err(|_| wrong())?;
        exchange(tls.connect(name, stream).await.map_err(unreachable)?, uri, &host).await
    }
}

async fn exchange<S>(stream: S, uri: &Uri, host: &str) -> Result<Response<Incoming>, GetError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let failed = |source| GetError::Exchange { host: host.to_owned(), source };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    // Ends with the answer's body, or when nobody wants that any more.
    tokio::spawn(connection);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = uri.authority().map_or(host, |authority| authority.as_str());
    let request = Request::get(path)
        .header(header::HOST, authority)
        .header(header::USER_AGENT, concat!("setpoint-agent/", env!("CARGO_PKG_VERSION")))
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|_| GetError::Url(uri.clone()))?;
    sender.send_request(request).await.map_err(failed)
}
