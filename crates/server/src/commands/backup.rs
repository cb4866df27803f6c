//! `setpointd backup`: fetches a consistent copy of a node's data into a file.

use std::fs;
use std::path::{Path, PathBuf};

use setpoint_api::etcdserverpb::SnapshotRequest;
use setpoint_api::etcdserverpb::maintenance_client::MaintenanceClient;
use tokio::io::AsyncWriteExt;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::options::BackupArgs;
use crate::tls::{self, TlsError};

#[derive(Debug, thiserror::Error)]
pub enum BackupCommandError {
    #[error("{endpoint} is not an address, or no node answers there")]
    Connect {
        endpoint: String,
        #[source]
        source: tonic::transport::Error,
    },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("the node broke the backup off: {0}")]
    Broken(String),
    #[error("{path} cannot be written")]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

pub async fn run(args: &BackupArgs) -> Result<String, BackupCommandError> {
    let channel = connect(args).await?;
    let draft = args.file.with_extension("partial");
    let written = fetch(channel, &draft).await;
    let finished = match written {
        Ok(bytes) => fs::rename(&draft, &args.file).map(|()| bytes).map_err(write_error(&args.file)),
        Err(error) => Err(error),
    };
    let bytes = finished.inspect_err(|_| {
        // Nothing that looks like a backup stays behind.
        let _ = fs::remove_file(&draft);
    })?;
    Ok(format!("{bytes} bytes written to {}", args.file.display()))
}

async fn connect(args: &BackupArgs) -> Result<Channel, BackupCommandError> {
    let failed = |source| BackupCommandError::Connect { endpoint: args.endpoint.clone(), source };
    let mut endpoint = Endpoint::from_shared(args.endpoint.clone()).map_err(failed)?;
    if args.endpoint.starts_with("https://") {
        let mut tls = ClientTlsConfig::new();
        if let Some(ca) = &args.ca_file {
            tls = tls.ca_certificate(Certificate::from_pem(tls::read(ca)?));
        }
        if let (Some(cert), Some(key)) = (&args.cert_file, &args.key_file) {
            tls = tls.identity(Identity::from_pem(tls::read(cert)?, tls::read(key)?));
        }
        endpoint = endpoint.tls_config(tls).map_err(failed)?;
    }
    endpoint.connect().await.map_err(failed)
}

async fn fetch(channel: Channel, draft: &Path) -> Result<u64, BackupCommandError> {
    let broken = |status: tonic::Status| BackupCommandError::Broken(status.message().to_owned());
    let mut chunks =
        MaintenanceClient::new(channel).snapshot(SnapshotRequest {}).await.map_err(broken)?.into_inner();
    let mut file = tokio::fs::File::create(draft).await.map_err(write_error(draft))?;
    let mut bytes = 0;
    while let Some(chunk) = chunks.message().await.map_err(broken)? {
        file.write_all(&chunk.blob).await.map_err(write_error(draft))?;
        bytes += chunk.blob.len() as u64;
    }
    file.sync_all().await.map_err(write_error(draft))?;
    Ok(bytes)
}

fn write_error(path: &Path) -> impl Fn(std::io::Error) -> BackupCommandError {
    let path = path.to_owned();
    move |source| BackupCommandError::Write { path: path.clone(), source }
}
