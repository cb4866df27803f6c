//! Everything that can be set, from flags, environment and file. A flag wins over the environment, and that over the file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};
use serde::Deserialize;

/// A node of a Setpoint cluster: a replicated, revisioned key-value store that speaks etcd v3.
#[derive(Debug, Parser)]
#[command(name = "setpointd", version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Subcommands>,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Subcommand)]
pub enum Subcommands {
    /// Ask a node whether it is ready to serve; exits 0 if it is.
    Health(HealthArgs),
    /// Save a consistent copy of a node's data to a file.
    Backup(BackupArgs),
    /// Put a backup into an empty data folder, as the first state of a new cluster.
    Restore(RestoreArgs),
    /// Make authorities and certificates for trying a cluster with TLS.
    InitPki(InitPkiArgs),
    /// Make, list and revoke the tokens of a token file.
    Token(TokenArgs),
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// A YAML file with any of these settings, named as the flags are but with `_` for `-`.
    // Not SETPOINT_CONFIG: that names the file of clients, and whoever exports it for them may start a node in the same shell.
    #[arg(long, env = "SETPOINT_SERVER_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub settings: Settings,
}

/// What a node is told. Everything is optional here; `config` fills in the defaults and checks the whole.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// This node's name, unique in the cluster.
    #[arg(long, env = "SETPOINT_NAME")]
    pub name: Option<String>,
    /// Where the node keeps everything it stores.
    #[arg(long, env = "SETPOINT_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Address for clients (gRPC, etcd v3) [default: 127.0.0.1:7400]
    #[arg(long, env = "SETPOINT_LISTEN_CLIENT", value_name = "HOST:PORT")]
    pub listen_client: Option<String>,
    /// Address for the other nodes [default: 127.0.0.1:7401]
    #[arg(long, env = "SETPOINT_LISTEN_PEER", value_name = "HOST:PORT")]
    pub listen_peer: Option<String>,
    /// Address for the console, metrics and health checks (HTTP) [default: 127.0.0.1:7402]
    #[arg(long, env = "SETPOINT_LISTEN_HTTP", value_name = "HOST:PORT")]
    pub listen_http: Option<String>,
    /// Names by which browsers may ask for the console, beside this node's name, its addresses and localhost.
    #[arg(long, env = "SETPOINT_CONSOLE_HOSTS", value_name = "NAME,...")]
    pub console_hosts: Option<String>,
    /// How clients reach this node, if not by its listening address.
    #[arg(long, env = "SETPOINT_ADVERTISE_CLIENT", value_name = "HOST:PORT")]
    pub advertise_client: Option<String>,
    /// How the other nodes reach this one, if not by its listening address.
    #[arg(long, env = "SETPOINT_ADVERTISE_PEER", value_name = "HOST:PORT")]
    pub advertise_peer: Option<String>,
    /// The members of a new cluster: name=host:port of each peer address, the same list on every one of them.
    #[arg(long, env = "SETPOINT_INITIAL_CLUSTER", value_name = "NAME=HOST:PORT,...")]
    pub initial_cluster: Option<String>,
    /// Tells apart clusters that have the same members.
    #[arg(long, env = "SETPOINT_CLUSTER_TOKEN", value_name = "TEXT")]
    pub cluster_token: Option<String>,
    /// Peer addresses of a running cluster to join, instead of making a new one.
    #[arg(long, env = "SETPOINT_JOIN", value_name = "HOST:PORT,...")]
    pub join: Option<String>,
    /// Certificate to show to clients (PEM). Turns TLS on.
    #[arg(long, env = "SETPOINT_CERT_FILE", value_name = "FILE")]
    pub cert_file: Option<PathBuf>,
    /// Key of that certificate (PEM).
    #[arg(long, env = "SETPOINT_KEY_FILE", value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Let in only clients with a certificate of this authority (PEM); with --access roles also those without one.
    #[arg(long, env = "SETPOINT_CLIENT_CA_FILE", value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,
    /// Who may do what: open (whoever gets in may do everything) or roles (what a Role allows) [default: open]
    #[arg(long, env = "SETPOINT_ACCESS", value_name = "MODE")]
    pub access: Option<String>,
    /// The tokens that clients may show, as `setpointd token` writes them; read again when it changes.
    #[arg(long, env = "SETPOINT_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Write a line here for every write and every denied request [default: audit.log in the data folder, with --access
    /// roles; otherwise none]
    #[arg(long, env = "SETPOINT_AUDIT_FILE", value_name = "FILE")]
    pub audit_file: Option<PathBuf>,
    /// Size at which that file is moved aside [default: 104857600]
    #[arg(long, env = "SETPOINT_AUDIT_FILE_BYTES", value_name = "BYTES")]
    pub audit_file_bytes: Option<u64>,
    /// How many of those moved aside are kept [default: 9]
    #[arg(long, env = "SETPOINT_AUDIT_FILES_KEPT", value_name = "COUNT")]
    pub audit_files_kept: Option<u32>,
    /// Certificate to show to the other nodes, as server and as client (PEM). Turns mutual TLS on between nodes.
    #[arg(long, env = "SETPOINT_PEER_CERT_FILE", value_name = "FILE")]
    pub peer_cert_file: Option<PathBuf>,
    /// Key of that certificate (PEM).
    #[arg(long, env = "SETPOINT_PEER_KEY_FILE", value_name = "FILE")]
    pub peer_key_file: Option<PathBuf>,
    /// The authority that signed the certificates of all nodes (PEM).
    #[arg(long, env = "SETPOINT_PEER_CA_FILE", value_name = "FILE")]
    pub peer_ca_file: Option<PathBuf>,
    /// Size of the database at which writes stop until space is made; 0 for none [default: 8589934592]
    #[arg(long, env = "SETPOINT_QUOTA_BYTES", value_name = "BYTES")]
    pub quota_bytes: Option<u64>,
    /// Keep history at least this long; older revisions are compacted. E.g. 5m, 24h. Without it and without
    /// --retention-revisions all history is kept.
    #[arg(long, env = "SETPOINT_RETENTION_AGE", value_name = "DURATION")]
    pub retention_age: Option<String>,
    /// Keep at least so many revisions.
    #[arg(long, env = "SETPOINT_RETENTION_REVISIONS", value_name = "COUNT")]
    pub retention_revisions: Option<u64>,
    /// Largest request in bytes [default: 1572864]
    #[arg(long, env = "SETPOINT_MAX_REQUEST_BYTES", value_name = "BYTES")]
    pub max_request_bytes: Option<usize>,
    /// Most operations in one transaction [default: 128]
    #[arg(long, env = "SETPOINT_MAX_TXN_OPS", value_name = "COUNT")]
    pub max_txn_ops: Option<usize>,
    /// Requests done at a time for leases, for controllers and for everybody else, each; as many again for whichever of
    /// them needs more [default: 1024]
    #[arg(long, env = "SETPOINT_MAX_REQUESTS", value_name = "COUNT")]
    pub max_requests: Option<u32>,
    /// Lists and other requests for many keys or objects done at a time; as many again while there is little else to do
    /// [default: 16]
    #[arg(long, env = "SETPOINT_MAX_LISTS", value_name = "COUNT")]
    pub max_lists: Option<u32>,
    /// Requests of each kind that may wait for their turn, half of them of one client [default: 8192]
    #[arg(long, env = "SETPOINT_MAX_WAITING_REQUESTS", value_name = "COUNT")]
    pub max_waiting_requests: Option<usize>,
    /// Open streams, and as many of keep-alives besides [default: 131072]
    #[arg(long, env = "SETPOINT_MAX_STREAMS", value_name = "COUNT")]
    pub max_streams: Option<usize>,
    /// The same of one client [default: 16384]
    #[arg(long, env = "SETPOINT_MAX_STREAMS_PER_CLIENT", value_name = "COUNT")]
    pub max_streams_per_client: Option<usize>,
    /// Watches; an etcd client may have many on one stream [default: 1048576]
    #[arg(long, env = "SETPOINT_MAX_WATCHES", value_name = "COUNT")]
    pub max_watches: Option<usize>,
    /// The same of one client [default: 131072]
    #[arg(long, env = "SETPOINT_MAX_WATCHES_PER_CLIENT", value_name = "COUNT")]
    pub max_watches_per_client: Option<usize>,
    /// Logs and commands of replicas that are passed on at a time [default: 256]
    #[arg(long, env = "SETPOINT_MAX_SESSIONS", value_name = "COUNT")]
    pub max_sessions: Option<usize>,
    /// The same for one client [default: 64]
    #[arg(long, env = "SETPOINT_MAX_SESSIONS_PER_CLIENT", value_name = "COUNT")]
    pub max_sessions_per_client: Option<usize>,
    /// How often a quiet watch that asked for it is told how far it has come [default: 10m]
    #[arg(long, env = "SETPOINT_WATCH_PROGRESS_INTERVAL", value_name = "DURATION")]
    pub watch_progress_interval: Option<String>,
    /// Between two heartbeats of the leader [default: 100ms]
    #[arg(long, env = "SETPOINT_HEARTBEAT_INTERVAL", value_name = "DURATION")]
    pub heartbeat_interval: Option<String>,
    /// How long a leader may be silent before another is elected [default: 1s]
    #[arg(long, env = "SETPOINT_ELECTION_TIMEOUT", value_name = "DURATION")]
    pub election_timeout: Option<String>,
    /// Log entries between two flushes of the state, after which the log is cut [default: 50000]
    #[arg(long, env = "SETPOINT_SNAPSHOT_COUNT", value_name = "COUNT")]
    pub snapshot_count: Option<u64>,
    /// Log entries kept for nodes that were away for a while [default: 20000]
    #[arg(long, env = "SETPOINT_LOG_KEEP", value_name = "COUNT")]
    pub log_keep: Option<u64>,
    /// The same in bytes; the log is cut where either is reached [default: 16777216]
    #[arg(long, env = "SETPOINT_LOG_KEEP_BYTES", value_name = "BYTES")]
    pub log_keep_bytes: Option<u64>,
    /// Memory for blocks read from disk [default: 67108864]
    #[arg(long, env = "SETPOINT_CACHE_BYTES", value_name = "BYTES")]
    pub cache_bytes: Option<usize>,
    /// What to log: a level (error, warn, info, debug, trace) or rules such as info,setpoint_consensus=debug
    /// [default: info,openraft=error]
    #[arg(long, env = "SETPOINT_LOG", value_name = "RULES")]
    pub log: Option<String>,
    /// How to log: text or json [default: text]
    #[arg(long, env = "SETPOINT_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<String>,
}

#[derive(Debug, Args)]
pub struct HealthArgs {
    /// The node's HTTP address.
    #[arg(long, env = "SETPOINT_LISTEN_HTTP", default_value = "127.0.0.1:7402", value_name = "HOST:PORT")]
    pub endpoint: String,
}

#[derive(Debug, Args)]
pub struct BackupArgs {
    /// The node's client address, with https:// if it uses TLS.
    #[arg(long, default_value = "http://127.0.0.1:7400", value_name = "URL")]
    pub endpoint: String,
    /// The authority that signed the node's certificate (PEM).
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Our certificate and key, if the node asks clients for one (PEM).
    #[arg(long, value_name = "FILE", requires = "key_file")]
    pub cert_file: Option<PathBuf>,
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    pub key_file: Option<PathBuf>,
    /// A file with the token to show, instead of a certificate.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// The file to write. It appears only when the backup is complete.
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// The backup.
    pub file: PathBuf,
    /// The data folder to make. Must not exist, or be empty.
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,
}

#[derive(Debug, Args)]
pub struct InitPkiArgs {
    /// Where to put them. What is already there is kept.
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// Host names and addresses that clients and other nodes reach the nodes by.
    #[arg(long, value_name = "HOST,...", value_delimiter = ',', default_value = "localhost,127.0.0.1,::1")]
    pub hosts: Vec<String>,
    /// A client, and the group it is in; may be repeated [default: admin:setpoint:admins]
    #[arg(long, value_name = "NAME[:GROUP]")]
    pub client: Vec<String>,
}

#[derive(Debug, Args)]
pub struct TokenArgs {
    #[command(subcommand)]
    pub command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token and print it. The file keeps only its hash: it cannot be shown again.
    Create {
        /// The token file; made if there is none.
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
        /// Whose token it is.
        #[arg(long, value_name = "NAME")]
        user: String,
        /// A group the user is in; may be repeated.
        #[arg(long, value_name = "GROUP")]
        group: Vec<String>,
        /// How long it is valid.
        #[arg(long, value_name = "DURATION", default_value = "30d")]
        ttl: String,
    },
    /// Show whose tokens there are, and until when they are valid.
    List {
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
    },
    /// Remove a token.
    Revoke {
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
        /// As the list shows it.
        id: String,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("the config file {path} cannot be read")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "the config file {path} has keys that are no settings: {keys}; settings are named as the flags are (setpointd \
         --help), but with _ for -"
    )]
    Unknown { path: PathBuf, keys: String },
    #[error("the config file {path} is not understood: {problem}")]
    Parse { path: PathBuf, problem: String },
}

impl RunArgs {
    /// The settings of flags and environment, completed by the file.
    pub fn merged(self) -> Result<Settings, FileError> {
        match &self.config {
            Some(path) => Ok(self.settings.or(read(path)?)),
            None => Ok(self.settings),
        }
    }
}

fn read(path: &Path) -> Result<Settings, FileError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| FileError::Read { path: path.to_owned(), source })?;
    // All of them at once; the parser would stop at the first.
    let unknown = unknown_keys(&text);
    if !unknown.is_empty() {
        return Err(FileError::Unknown { path: path.to_owned(), keys: unknown.join(", ") });
    }
    serde_saphyr::from_str(&text)
        .map_err(|error| FileError::Parse { path: path.to_owned(), problem: error.to_string() })
}

/// The keys that are no setting's. None if the file is not even a list of keys, which is reported otherwise.
fn unknown_keys(text: &str) -> Vec<String> {
    let Ok(keys) = serde_saphyr::from_str::<BTreeMap<String, serde_json::Value>>(text) else {
        return Vec::new();
    };
    let known = Settings::augment_args(clap::Command::new("settings"));
    let is_known = |key: &String| known.get_arguments().any(|argument| argument.get_id() == key.as_str());
    keys.into_keys().filter(|key| !is_known(key)).collect()
}

macro_rules! or_all {
    ($first:ident, $second:ident, $($field:ident),* $(,)?) => {
        Settings { $($field: $first.$field.or($second.$field)),* }
    };
}

impl Settings {
    fn or(self, other: Self) -> Self {
        or_all!(
            self,
            other,
            name,
            data_dir,
            listen_client,
            listen_peer,
            listen_http,
            console_hosts,
            advertise_client,
            advertise_peer,
            initial_cluster,
            cluster_token,
            join,
            cert_file,
            key_file,
            client_ca_file,
            access,
            token_file,
            audit_file,
            audit_file_bytes,
            audit_files_kept,
            peer_cert_file,
            peer_key_file,
            peer_ca_file,
            quota_bytes,
            retention_age,
            retention_revisions,
            max_request_bytes,
            max_txn_ops,
            max_requests,
            max_lists,
            max_waiting_requests,
            max_streams,
            max_streams_per_client,
            max_watches,
            max_watches_per_client,
            max_sessions,
            max_sessions_per_client,
            watch_progress_interval,
            heartbeat_interval,
            election_timeout,
            snapshot_count,
            log_keep,
            log_keep_bytes,
            cache_bytes,
            log,
            log_format,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_the_file_and_unknown_keys_are_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("config.yaml");
        std::fs::write(&path, "name: from-file\nquota_bytes: 5\n").expect("written");
        let settings = Settings { name: Some("from-flag".to_owned()), ..Settings::default() };
        let merged =
            RunArgs { config: Some(path.clone()), settings: settings.clone() }.merged().expect("merged");
        assert_eq!((merged.name.as_deref(), merged.quota_bytes), (Some("from-flag"), Some(5)));
        std::fs::write(&path, "nmae: typo\nquota_bytes: 5\nlisten-peer: 127.0.0.1:1\n").expect("written");
        let refused = RunArgs { config: Some(path), settings }.merged().expect_err("a typo is refused");
        assert!(refused.to_string().contains("listen-peer, nmae;"), "{refused}");
    }
}
