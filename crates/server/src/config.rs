//! The settings, completed and checked. Whatever is wrong is reported at once, each by the name of its setting.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use setpoint_apiserver::etcd::context::Limits;
use setpoint_apiserver::housekeeping::Retention;
use setpoint_consensus::{LogRetention, Timing};
use setpoint_store::RocksOptions;

use crate::options::Settings;

#[derive(Debug)]
pub struct ServerConfig {
    pub name: String,
    pub data_dir: PathBuf,
    pub listen_client: SocketAddr,
    pub listen_peer: SocketAddr,
    pub listen_http: SocketAddr,
    pub advertise_client: String,
    pub advertise_peer: String,
    pub origin: Origin,
    pub client_tls: Option<ServerTls>,
    pub peer_tls: Option<PeerTls>,
    pub quota_bytes: u64,
    pub retention: Retention,
    pub limits: Limits,
    pub timing: Timing,
    pub log: LogRetention,
    pub engine: RocksOptions,
    pub logging: Logging,
}

/// Where a node without data gets its place from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It founds a cluster, together with the others named: peer addresses by name.
    Found { members: BTreeMap<String, String>, token: String },
    /// It asks these peer addresses to be taken in.
    Join { seeds: Vec<String> },
}

#[derive(Clone, Debug)]
pub struct ServerTls {
    pub cert: PathBuf,
    pub key: PathBuf,
    /// Clients must show a certificate of this authority.
    pub client_ca: Option<PathBuf>,
}

#[derive(Clone, Debug)]
pub struct PeerTls {
    pub cert: PathBuf,
    pub key: PathBuf,
    pub ca: PathBuf,
}

#[derive(Clone, Debug)]
pub struct Logging {
    pub rules: String,
    pub json: bool,
}

/// Everything that is wrong with the settings.
#[derive(Debug, Default)]
pub struct Problems(Vec<String>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the settings cannot be used:")?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for Problems {}

impl Problems {
    fn add(&mut self, setting: &str, problem: impl fmt::Display) {
        self.0.push(format!("--{setting}: {problem}"));
    }

    fn address(&mut self, setting: &str, value: Option<&String>, default: &str) -> SocketAddr {
        let text = value.map_or(default, String::as_str);
        match text.to_socket_addrs().map(|mut addresses| addresses.next()) {
            Ok(Some(address)) => return address,
            Ok(None) => self.add(setting, format!("{text} has no address")),
            Err(error) => {
                self.add(setting, format!("{text} is not a host:port that can be listened on ({error})"))
            }
        }
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    fn duration(&mut self, setting: &str, value: Option<&String>, default: Duration) -> Duration {
        let Some(text) = value else { return default };
        humantime::parse_duration(text).unwrap_or_else(|error| {
            self.add(setting, format!("{text:?} is not a duration such as 500ms, 5m or 24h ({error})"));
            default
        })
    }
}

impl TryFrom<Settings> for ServerConfig {
    type Error = Problems;

    fn try_from(settings: Settings) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let name = settings.name.clone().unwrap_or_else(|| "default".to_owned());
        if name.is_empty() || name.contains(['=', ',']) {
            problems.add("name", "must not be empty or contain '=' or ','");
        }
        let listen_client =
            problems.address("listen-client", settings.listen_client.as_ref(), "127.0.0.1:7400");
        let listen_peer = problems.address("listen-peer", settings.listen_peer.as_ref(), "127.0.0.1:7401");
        let listen_http = problems.address("listen-http", settings.listen_http.as_ref(), "127.0.0.1:7402");
        let advertise_peer = settings.advertise_peer.clone().unwrap_or_else(|| {
            // The members' list names us too, by the address the others use.
            let listed = settings.initial_cluster.as_deref().and_then(|list| member_address(list, &name));
            listed.unwrap_or_else(|| listen_peer.to_string())
        });
        let origin = origin(&settings, &name, &advertise_peer, &mut problems);
        let client_tls = client_tls(&settings, &mut problems);
        let peer_tls = peer_tls(&settings, &mut problems);
        let retention = Retention {
            age: settings
                .retention_age
                .as_ref()
                .map(|age| problems.duration("retention-age", Some(age), Duration::ZERO)),
            revisions: settings.retention_revisions,
        };
        let limits = limits(&settings, &mut problems);
        let timing = timing(&settings, &mut problems);
        let logging = logging(&settings, &mut problems);
        let log = LogRetention::default();
        let config = Self {
            data_dir: settings.data_dir.unwrap_or_else(|| PathBuf::from(format!("{name}.setpoint"))),
            listen_client,
            listen_peer,
            listen_http,
            advertise_client: settings.advertise_client.unwrap_or_else(|| listen_client.to_string()),
            advertise_peer,
            origin,
            client_tls,
            peer_tls,
            quota_bytes: settings.quota_bytes.unwrap_or(8 << 30),
            retention,
            limits,
            timing,
            log: LogRetention {
                snapshot_every: settings.snapshot_count.unwrap_or(log.snapshot_every),
                keep: settings.log_keep.unwrap_or(log.keep),
                // Cutting in larger pieces than what is to be kept would keep more than was asked for.
                purge_batch: log.purge_batch.min(settings.log_keep.unwrap_or(log.keep).max(1)),
                keep_bytes: settings.log_keep_bytes.unwrap_or(log.keep_bytes),
                ..log
            },
            engine: RocksOptions {
                block_cache_bytes: settings.cache_bytes.unwrap_or(RocksOptions::default().block_cache_bytes),
                ..RocksOptions::default()
            }
            .staggered(&name),
            name,
            logging,
        };
        if problems.0.is_empty() { Ok(config) } else { Err(problems) }
    }
}

fn member_address(list: &str, name: &str) -> Option<String> {
    let entries = list.split(',').filter_map(|entry| entry.trim().split_once('='));
    entries.into_iter().find(|(entry, _)| *entry == name).map(|(_, address)| strip_scheme(address).to_owned())
}

/// Addresses copied from an etcd configuration carry a scheme.
fn strip_scheme(address: &str) -> &str {
    let address = address.trim();
    address.strip_prefix("http://").or_else(|| address.strip_prefix("https://")).unwrap_or(address)
}

fn origin(settings: &Settings, name: &str, advertise_peer: &str, problems: &mut Problems) -> Origin {
    let token = settings.cluster_token.clone().unwrap_or_else(|| "setpoint".to_owned());
    match (&settings.initial_cluster, &settings.join) {
        (Some(_), Some(_)) => {
            problems
                .add("join", "cannot go with --initial-cluster: a node either founds a cluster or joins one");
        }
        (None, Some(join)) => {
            return Origin::Join {
                seeds: join.split(',').map(|seed| strip_scheme(seed).to_owned()).collect(),
            };
        }
        (Some(list), None) => return Origin::Found { members: members(list, name, problems), token },
        (None, None) => {}
    }
    Origin::Found { members: BTreeMap::from([(name.to_owned(), advertise_peer.to_owned())]), token }
}

fn members(list: &str, name: &str, problems: &mut Problems) -> BTreeMap<String, String> {
    let mut members = BTreeMap::new();
    for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        match entry.split_once('=') {
            Some((member, address)) if !member.is_empty() && address.contains(':') => {
                if members.insert(member.to_owned(), strip_scheme(address).to_owned()).is_some() {
                    problems.add("initial-cluster", format!("names {member} twice"));
                }
            }
            _ => problems.add("initial-cluster", format!("{entry:?} is not name=host:port")),
        }
    }
    if !members.contains_key(name) {
        problems.add("initial-cluster", format!("does not name this node, which is called {name} (--name)"));
    }
    members
}

fn client_tls(settings: &Settings, problems: &mut Problems) -> Option<ServerTls> {
    match (&settings.cert_file, &settings.key_file) {
        (Some(cert), Some(key)) => Some(ServerTls {
            cert: cert.clone(),
            key: key.clone(),
            client_ca: settings.client_ca_file.clone(),
        }),
        (None, None) if settings.client_ca_file.is_none() => None,
        _ => {
            problems.add("cert-file", "TLS for clients needs --cert-file and --key-file");
            None
        }
    }
}

fn peer_tls(settings: &Settings, problems: &mut Problems) -> Option<PeerTls> {
    match (&settings.peer_cert_file, &settings.peer_key_file, &settings.peer_ca_file) {
        (Some(cert), Some(key), Some(ca)) => {
            Some(PeerTls { cert: cert.clone(), key: key.clone(), ca: ca.clone() })
        }
        (None, None, None) => None,
        _ => {
            problems.add(
                "peer-cert-file",
                "TLS between nodes needs --peer-cert-file, --peer-key-file and --peer-ca-file",
            );
            None
        }
    }
}

fn limits(settings: &Settings, problems: &mut Problems) -> Limits {
    let default = Limits::default();
    let interval = problems.duration(
        "watch-progress-interval",
        settings.watch_progress_interval.as_ref(),
        default.watch_progress_interval,
    );
    if interval < Duration::from_millis(100) {
        problems.add("watch-progress-interval", "must be at least 100ms");
    }
    Limits {
        election_timeout: problems.duration(
            "election-timeout",
            settings.election_timeout.as_ref(),
            ELECTION_TIMEOUT,
        ),
        request_bytes: settings.max_request_bytes.unwrap_or(default.request_bytes),
        txn_ops: settings.max_txn_ops.unwrap_or(default.txn_ops),
        watch_progress_interval: interval.max(Duration::from_millis(100)),
        ..default
    }
}

const ELECTION_TIMEOUT: Duration = Duration::from_secs(1);

fn timing(settings: &Settings, problems: &mut Problems) -> Timing {
    let default = Timing::default();
    let heartbeat =
        problems.duration("heartbeat-interval", settings.heartbeat_interval.as_ref(), default.heartbeat);
    let election =
        problems.duration("election-timeout", settings.election_timeout.as_ref(), ELECTION_TIMEOUT);
    if election < heartbeat * 5 {
        problems.add("election-timeout", "must be at least five times --heartbeat-interval");
    }
    // A follower waits for the leader's lease (`election_max`) and then for its own random part.
    Timing { heartbeat, election_min: election.mul_f32(0.3), election_max: election / 2, ..default }
}

fn logging(settings: &Settings, problems: &mut Problems) -> Logging {
    let json = match settings.log_format.as_deref() {
        None | Some("text") => false,
        Some("json") => true,
        Some(other) => {
            problems.add("log-format", format!("{other:?} is neither text nor json"));
            false
        }
    };
    Logging { rules: settings.log.clone().unwrap_or_else(|| "info,openraft=error".to_owned()), json }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(settings: Settings) -> Result<ServerConfig, String> {
        ServerConfig::try_from(settings).map_err(|problems| problems.to_string())
    }

    fn text(value: &str) -> Option<String> {
        Some(value.to_owned())
    }

    #[test]
    fn alone_a_node_founds_a_cluster_of_one() {
        let config = checked(Settings::default()).expect("the defaults work");
        let members = BTreeMap::from([("default".to_owned(), "127.0.0.1:7401".to_owned())]);
        assert_eq!(config.origin, Origin::Found { members, token: "setpoint".to_owned() });
    }

    #[test]
    fn every_problem_is_reported_at_once() {
        let problems = checked(Settings {
            name: text("n9"),
            listen_client: text("nowhere"),
            initial_cluster: text("n1=127.0.0.1:1,n1=127.0.0.1:2,broken"),
            retention_age: text("soon"),
            cert_file: Some("cert.pem".into()),
            log_format: text("xml"),
            ..Settings::default()
        })
        .expect_err("nothing is right");
        for expected in
            ["listen-client", "n1 twice", "broken", "called n9", "retention-age", "cert-file", "log-format"]
        {
            assert!(problems.contains(expected), "{expected} in {problems}");
        }
    }

    #[test]
    fn the_peer_address_is_the_one_the_others_were_told() {
        let config = checked(Settings {
            name: text("b"),
            initial_cluster: text("a=http://10.0.0.1:7401,b=10.0.0.2:7401"),
            listen_peer: text("0.0.0.0:7401"),
            ..Settings::default()
        })
        .expect("fine");
        assert_eq!(config.advertise_peer, "10.0.0.2:7401");
    }
}
