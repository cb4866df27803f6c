//! `setpointd backup`: fetches a consistent copy of a node's data into a file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use setpoint_api::etcdserverpb::SnapshotRequest;
use setpoint_api::etcdserverpb::maintenance_client::MaintenanceClient;
use tokio::io::AsyncWriteExt;
use tonic::Request;
use tonic::metadata::MetadataValue;
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
    #[error("the token file {path} cannot be read")]
    TokenFile {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is no token: one line, as `setpointd token create` prints it")]
    NoToken { path: PathBuf },
    #[error("the node broke the backup off: {0}")]
    Broken(String),
    #[error(
        "{draft} is there already: another backup to this file is being made, or one was broken off; then remove it"
    )]
    Underway { draft: PathBuf },
    #[error("{path} cannot be written")]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

pub async fn run(args: &BackupArgs) -> Result<String, BackupCommandError> {
    let request = ask(args.token_file.as_deref())?;
    let channel = connect(args).await?;
    let draft = draft(&args.file);
    let file = tokio::fs::File::create_new(&draft).await.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => BackupCommandError::Underway { draft: draft.clone() },
        _ => BackupCommandError::Write { path: draft.clone(), source },
    })?;
    let written = fetch(channel, request, file, &draft).await;
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

/// Beside the file, under a name that nothing else has.
fn draft(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// As etcd's tools do: an address without a scheme is one without TLS.
fn with_scheme(endpoint: &str) -> String {
    if endpoint.contains("://") { endpoint.to_owned() } else { format!("http://{endpoint}") }
}

async fn connect(args: &BackupArgs) -> Result<Channel, BackupCommandError> {
    let failed = |source| BackupCommandError::Connect { endpoint: args.endpoint.clone(), source };
    let mut endpoint = Endpoint::from_shared(with_scheme(&args.endpoint)).map_err(failed)?;
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

/// The request, with the token to show if there is one. A token on the command line would be for every process to see.
fn ask(token_file: Option<&Path>) -> Result<Request<SnapshotRequest>, BackupCommandError> {
    let mut request = Request::new(SnapshotRequest {});
    if let Some(path) = token_file {
        let read = fs::read_to_string(path);
        let token = read.map_err(|source| BackupCommandError::TokenFile { path: path.to_owned(), source })?;
        let header = MetadataValue::try_from(format!("Bearer {}", token.trim()));
        let mut header = header.map_err(|_| BackupCommandError::NoToken { path: path.to_owned() })?;
        header.set_sensitive(true);
        request.metadata_mut().insert("authorization", header);
    }
    Ok(request)
}

async fn fetch(
    channel: Channel,
    request: Request<SnapshotRequest>,
    mut file: tokio::fs::File,
    draft: &Path,
) -> Result<u64, BackupCommandError> {
    let broken = |status: tonic::Status| BackupCommandError::Broken(status.message().to_owned());
    let mut chunks = MaintenanceClient::new(channel).snapshot(request).await.map_err(broken)?.into_inner();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_draft_is_nobody_elses_file_and_an_address_needs_no_scheme() {
        assert_eq!(draft(Path::new("a/x.db")), Path::new("a/x.db.partial"));
        assert_eq!(with_scheme("127.0.0.1:7400"), "http://127.0.0.1:7400");
        assert_eq!(with_scheme("https://node.example:7400"), "https://node.example:7400");
    }

    #[test]
    fn the_token_is_the_one_in_the_file_without_the_end_of_its_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        assert!(ask(None).expect("no file, no token").metadata().is_empty());
        assert!(matches!(ask(Some(&path)), Err(BackupCommandError::TokenFile { .. })));
        fs::write(&path, "setpoint_1_2\n").expect("written");
        let request = ask(Some(&path)).expect("a token");
        let shown = request.metadata().get("authorization").expect("a header");
        assert_eq!(shown, "Bearer setpoint_1_2");
        assert!(!format!("{:?}", request.metadata()).contains("setpoint_1_2"), "no log shows it");
        fs::write(&path, "two\nlines").expect("written");
        assert!(matches!(ask(Some(&path)), Err(BackupCommandError::NoToken { .. })));
    }
}
