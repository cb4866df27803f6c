//! Certificates from files into tonic's settings.

use std::fs;
use std::path::{Path, PathBuf};

use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};

use crate::config::{PeerTls, ServerTls};

#[derive(Debug, thiserror::Error)]
#[error("the certificate or key file {path} cannot be read")]
pub struct TlsError {
    path: PathBuf,
    #[source]
    source: std::io::Error,
}

/// Both directions of the traffic between nodes.
#[derive(Clone)]
pub struct PeerTlsConfig {
    pub server: ServerTlsConfig,
    pub client: ClientTlsConfig,
}

pub fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError { path: path.to_owned(), source })
}

pub fn server(files: &ServerTls) -> Result<ServerTlsConfig, TlsError> {
    let tls = ServerTlsConfig::new().identity(Identity::from_pem(read(&files.cert)?, read(&files.key)?));
    Ok(match &files.client_ca {
        Some(ca) => tls.client_ca_root(Certificate::from_pem(read(ca)?)),
        None => tls,
    })
}

/// Each node proves to the other, in both roles, that the cluster's authority knows it.
pub fn peer(files: &PeerTls) -> Result<PeerTlsConfig, TlsError> {
    let identity = Identity::from_pem(read(&files.cert)?, read(&files.key)?);
    let ca = Certificate::from_pem(read(&files.ca)?);
    Ok(PeerTlsConfig {
        server: ServerTlsConfig::new().identity(identity.clone()).client_ca_root(ca.clone()),
        client: ClientTlsConfig::new().identity(identity).ca_certificate(ca),
    })
}
