//! Certificates from files into tonic's settings, tried before anything is served with them.

use std::fs;
use std::path::{Path, PathBuf};

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig};

use crate::config::{PeerTls, ServerTls};
use crate::door::HANDSHAKE_MAX;

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("the certificate or key file {path} cannot be read")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "the certificate {cert} with the key {key} cannot be used; both have to be PEM, and belong together"
    )]
    Identity {
        cert: PathBuf,
        key: PathBuf,
        #[source]
        source: tonic::transport::Error,
    },
    #[error("the authority {path} cannot be used; it has to be a PEM file with at least one certificate")]
    Authority {
        path: PathBuf,
        #[source]
        source: tonic::transport::Error,
    },
}

/// Both directions of the traffic between nodes.
#[derive(Clone)]
pub struct PeerTlsConfig {
    pub server: ServerTlsConfig,
    pub client: ClientTlsConfig,
}

pub fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
}

pub fn server(files: &ServerTls) -> Result<ServerTlsConfig, TlsError> {
    let tls = ServerTlsConfig::new().identity(identity(&files.cert, &files.key)?).timeout(HANDSHAKE_MAX);
    match &files.client_ca {
        Some(ca) => Ok(with_authority(tls, ca)?.client_auth_optional(files.client_auth_optional)),
        None => Ok(tls),
    }
}

/// Each node proves to the other, in both roles, that the cluster's authority knows it.
pub fn peer(files: &PeerTls) -> Result<PeerTlsConfig, TlsError> {
    let identity = identity(&files.cert, &files.key)?;
    let server = ServerTlsConfig::new().identity(identity.clone()).timeout(HANDSHAKE_MAX);
    let server = with_authority(server, &files.ca)?;
    let client =
        ClientTlsConfig::new().identity(identity).ca_certificate(Certificate::from_pem(read(&files.ca)?));
    let tried = Endpoint::from_static("https://peer").tls_config(client.clone());
    tried.map_err(|source| TlsError::Authority { path: files.ca.clone(), source })?;
    Ok(PeerTlsConfig { server, client })
}

fn identity(cert: &Path, key: &Path) -> Result<Identity, TlsError> {
    let identity = Identity::from_pem(read(cert)?, read(key)?);
    let tried = Server::builder().tls_config(ServerTlsConfig::new().identity(identity.clone()));
    tried.map_err(|source| TlsError::Identity { cert: cert.to_owned(), key: key.to_owned(), source })?;
    Ok(identity)
}

fn with_authority(tls: ServerTlsConfig, ca: &Path) -> Result<ServerTlsConfig, TlsError> {
    let tls = tls.client_ca_root(Certificate::from_pem(read(ca)?));
    let tried = Server::builder().tls_config(tls.clone());
    tried.map_err(|source| TlsError::Authority { path: ca.to_owned(), source })?;
    Ok(tls)
}
