//! The settings, completed and checked. Whatever is wrong is reported at once, each by the name of its setting.

mod access;
mod load;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use humantime::format_duration;
use setpoint_apiserver::etcd::context::Limits;
use setpoint_apiserver::housekeeping::Retention;
use setpoint_apiserver::load::LoadOptions;
use setpoint_consensus::{LogRetention, Timing};
use setpoint_store::RocksOptions;

use crate::options::Settings;

pub use access::AccessConfig;

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
    pub access: AccessConfig,
    /// Further names of this node, for browsers.
    pub console_hosts: Vec<String>,
    pub peer_tls: Option<PeerTls>,
    pub quota_bytes: u64,
    pub retention: Retention,
    pub limits: Limits,
    pub load: LoadOptions,
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
    /// Or none: they may show a token instead.
    pub client_auth_optional: bool,
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

    /// The value, or the default if it is out of bounds, which is a problem.
    fn within<T: Copy + PartialOrd + fmt::Display>(
        &mut self,
        setting: &str,
        value: Option<T>,
        default: T,
        bounds: RangeInclusive<T>,
    ) -> T {
        let value = value.unwrap_or(default);
        if bounds.contains(&value) {
            return value;
        }
        self.add(setting, format!("{value} is not between {} and {}", bounds.start(), bounds.end()));
        default
    }

    fn duration_within(
        &mut self,
        setting: &str,
        value: Option<&String>,
        default: Duration,
        bounds: RangeInclusive<Duration>,
    ) -> Duration {
        let value = self.duration(setting, value, default);
        if bounds.contains(&value) {
            return value;
        }
        let (min, max) = (format_duration(*bounds.start()), format_duration(*bounds.end()));
        self.add(setting, format!("{} is not between {min} and {max}", format_duration(value)));
        default
    }

    /// What others are told has to lead here.
    fn advertised(&mut self, setting: &str, address: &str) {
        if is_unspecified(address) {
            let problem = format!(
                "{address} is where this node listens, not where anybody could reach it; set --{setting} to an address of \
                 this machine that the others can reach"
            );
            self.add(setting, problem);
        }
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
        let advertise_client = settings.advertise_client.clone().unwrap_or_else(|| listen_client.to_string());
        problems.advertised("advertise-client", &advertise_client);
        problems.advertised("advertise-peer", &advertise_peer);
        let origin = origin(&settings, &name, &advertise_peer, &mut problems);
        let data_dir = settings.data_dir.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.setpoint")));
        let access = access::check(&settings, &data_dir, &mut problems);
        let client_tls = client_tls(&settings, access.roles, &mut problems);
        let peer_tls = peer_tls(&settings, &mut problems);
        let retention = retention(&settings, &mut problems);
        let election = election(&settings, &mut problems);
        let limits = limits(&settings, election, &mut problems);
        let load = load::load(&settings, &mut problems);
        let timing = timing(&settings, election, &mut problems);
        let logging = logging(&settings, &mut problems);
        let log = log(&settings, &mut problems);
        let engine = engine(&settings, &mut problems);
        let config = Self {
            data_dir,
            listen_client,
            listen_peer,
            listen_http,
            advertise_client,
            advertise_peer,
            origin,
            client_tls,
            access,
            console_hosts: names(settings.console_hosts.as_deref()),
            peer_tls,
            quota_bytes: settings.quota_bytes.unwrap_or(8 << 30),
            retention,
            limits,
            load,
            timing,
            log,
            engine: engine.staggered(&name),
            name,
            logging,
        };
        if problems.0.is_empty() { Ok(config) } else { Err(problems) }
    }
}

/// Bounds of the numbers. Beyond the lower ones a node would do nothing but what the setting is about, or fail; the upper
/// ones are far beyond any use and keep sums from overflowing.
const COUNT: RangeInclusive<u64> = 1..=1_000_000_000;
const TXN_OPS: RangeInclusive<usize> = 1..=100_000;
const CACHE_BYTES: RangeInclusive<usize> = 1 << 20..=1 << 40;
const REQUEST_BYTES_MIN: usize = 1 << 10;
const HEARTBEAT: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(10);
const ELECTION: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(300);
const RETENTION_AGE: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(100 * 365 * 24 * 3600);

fn retention(settings: &Settings, problems: &mut Problems) -> Retention {
    let age = settings.retention_age.as_ref();
    Retention {
        age: age.map(|age| {
            problems.duration_within("retention-age", Some(age), *RETENTION_AGE.start(), RETENTION_AGE)
        }),
        revisions: settings
            .retention_revisions
            .map(|count| problems.within("retention-revisions", Some(count), 1, COUNT)),
    }
}

fn log(settings: &Settings, problems: &mut Problems) -> LogRetention {
    let default = LogRetention::default();
    let keep = problems.within("log-keep", settings.log_keep, default.keep, COUNT);
    LogRetention {
        snapshot_every: problems.within(
            "snapshot-count",
            settings.snapshot_count,
            default.snapshot_every,
            COUNT,
        ),
        keep,
        // Cutting in larger pieces than what is to be kept would keep more than was asked for.
        purge_batch: default.purge_batch.min(keep),
        keep_bytes: settings.log_keep_bytes.unwrap_or(default.keep_bytes),
        ..default
    }
}

fn engine(settings: &Settings, problems: &mut Problems) -> RocksOptions {
    let default = RocksOptions::default();
    let cache = problems.within("cache-bytes", settings.cache_bytes, default.block_cache_bytes, CACHE_BYTES);
    RocksOptions { block_cache_bytes: cache, ..default }
}

fn is_unspecified(address: &str) -> bool {
    address.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_unspecified())
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
    let mut members = BTreeMap::<String, String>::new();
    for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        match entry.split_once('=') {
            Some((member, address)) if !member.is_empty() && address.contains(':') => {
                let address = strip_scheme(address);
                if let Some((other, _)) = members.iter().find(|(_, known)| *known == address) {
                    problems.add(
                        "initial-cluster",
                        format!("gives {other} and {member} the same address {address}"),
                    );
                }
                if is_unspecified(address) && member != name {
                    problems
                        .add("initial-cluster", format!("{address} is not where {member} could be reached"));
                }
                if members.insert(member.to_owned(), address.to_owned()).is_some() {
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

fn names(list: Option<&str>) -> Vec<String> {
    let names = list.unwrap_or_default().split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn client_tls(settings: &Settings, client_auth_optional: bool, problems: &mut Problems) -> Option<ServerTls> {
    match (&settings.cert_file, &settings.key_file) {
        (Some(cert), Some(key)) => Some(ServerTls {
            cert: cert.clone(),
            key: key.clone(),
            client_ca: settings.client_ca_file.clone(),
            client_auth_optional,
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

fn limits(settings: &Settings, election_timeout: Duration, problems: &mut Problems) -> Limits {
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
        election_timeout,
        request_bytes: problems.within(
            "max-request-bytes",
            settings.max_request_bytes,
            default.request_bytes,
            REQUEST_BYTES_MIN..=request_bytes_max(),
        ),
        txn_ops: problems.within("max-txn-ops", settings.max_txn_ops, default.txn_ops, TXN_OPS),
        watch_progress_interval: interval.max(Duration::from_millis(100)),
        ..default
    }
}

const ELECTION_TIMEOUT: Duration = Duration::from_secs(1);

/// A request becomes one command, which is a little larger.
fn request_bytes_max() -> usize {
    setpoint_consensus::Limits::default().command_bytes - (512 << 10)
}

fn election(settings: &Settings, problems: &mut Problems) -> Duration {
    let election = settings.election_timeout.as_ref();
    problems.duration_within("election-timeout", election, ELECTION_TIMEOUT, ELECTION)
}

fn timing(settings: &Settings, election: Duration, problems: &mut Problems) -> Timing {
    let default = Timing::default();
    let heartbeat = settings.heartbeat_interval.as_ref();
    let heartbeat = problems.duration_within("heartbeat-interval", heartbeat, default.heartbeat, HEARTBEAT);
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

    /// The problems of these settings, which cannot be used.
    fn refused(settings: Settings) -> String {
        checked(settings).expect_err("these settings cannot be used")
    }

    #[test]
    fn numbers_out_of_bounds_are_refused() {
        let nothing = text("0s");
        let problems = refused(Settings {
            cache_bytes: Some(0),
            max_txn_ops: Some(0),
            max_requests: Some(0),
            max_watches_per_client: Some(0),
            max_request_bytes: Some(usize::MAX),
            snapshot_count: Some(0),
            log_keep: Some(0),
            retention_revisions: Some(0),
            retention_age: nothing.clone(),
            heartbeat_interval: nothing.clone(),
            ..Settings::default()
        });
        for expected in [
            "cache-bytes: 0 is not between 1048576 and",
            "max-txn-ops: 0 is not between 1 and",
            "max-requests: 0 is not between 1 and",
            "max-watches-per-client: 0 is not between 1 and",
            "max-request-bytes: 18446744073709551615 is not between 1024 and",
            "snapshot-count: 0",
            "log-keep: 0",
            "retention-revisions: 0",
            "retention-age: 0s is not between 1s and",
            "heartbeat-interval: 0s is not between 10ms and 10s",
        ] {
            assert!(problems.contains(expected), "{expected} in {problems}");
        }
        for wrong in ["soon", "0s", "100000000000y"] {
            let problems = refused(Settings { election_timeout: text(wrong), ..Settings::default() });
            assert_eq!(problems.matches("election-timeout").count(), 1, "{problems}");
        }
    }

    #[test]
    fn members_have_addresses_of_their_own_that_can_be_reached() {
        let list =
            |list: &str| Settings { name: text("a"), initial_cluster: text(list), ..Settings::default() };
        let twice = refused(list("a=10.0.0.1:7401,b=http://10.0.0.1:7401"));
        assert!(twice.contains("gives a and b the same address 10.0.0.1:7401"), "{twice}");
        let nowhere = refused(list("a=10.0.0.1:7401,b=0.0.0.0:7401"));
        assert!(nowhere.contains("is not where b could be reached"), "{nowhere}");
        for everywhere in ["0.0.0.0:7400", "[::]:7400"] {
            let listening = Settings {
                listen_client: text(everywhere),
                listen_peer: text(everywhere),
                ..Settings::default()
            };
            let problems = refused(listening.clone());
            for setting in ["set --advertise-client", "set --advertise-peer"] {
                assert!(problems.contains(setting), "{problems}");
            }
            let told = Settings {
                advertise_client: text("node.example:7400"),
                advertise_peer: text("node.example:7401"),
                ..listening
            };
            checked(told).expect("others can reach it");
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
