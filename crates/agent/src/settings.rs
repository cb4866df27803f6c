//! What the agent can be told, on the command line or by the environment, and what it makes of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};
use setpoint_types::names::{check_dns_label, check_dns_subdomain};
use setpoint_types::quantity::{Amounts, Unit};

/// Runs the replicas that are bound to this host, as processes or containers.
#[derive(Clone, Debug, Parser)]
#[command(name = "setpoint-agent", version, about)]
pub struct Cli {
    #[command(flatten)]
    pub run: RunArgs,
}

/// What becomes of replicas when the agent ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnShutdown {
    /// They go on; the next agent takes them up.
    Keep,
    /// They are stopped, and replaced elsewhere.
    Stop,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

/// Whether control groups are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cgroups {
    /// Where they can be.
    Auto,
    /// Nothing is limited.
    None,
}

#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Of the node. Left out: the host's name.
    #[arg(long, env = "SETPOINT_NODE_NAME")]
    pub name: Option<String>,
    /// What fails together with this host: a rack, a room, a region. Cannot be changed later.
    #[arg(long, env = "SETPOINT_ZONE", default_value = "default")]
    pub zone: String,
    /// Labels of the node: `disk=ssd`. May be given several times, or with commas.
    #[arg(long = "label", env = "SETPOINT_NODE_LABELS", value_delimiter = ',')]
    pub labels: Vec<String>,
    /// What the node has, instead of what is measured: `cpu=4,memory=8Gi,gpu=1`.
    #[arg(long, env = "SETPOINT_CAPACITY", default_value = "")]
    pub capacity: String,
    /// What of it is kept for the host itself.
    #[arg(long, env = "SETPOINT_RESERVED", default_value = "")]
    pub reserved: String,
    /// Nodes of the cluster, `HOST:PORT` with commas, over plain connections. Left out: as the config file's context says.
    #[arg(long, env = "SETPOINT_ENDPOINTS", value_delimiter = ',')]
    pub endpoints: Vec<String>,
    /// The context of the config file (`~/.setpoint/config`, or SETPOINT_CONFIG).
    #[arg(long, env = "SETPOINT_CONTEXT")]
    pub context: Option<String>,
    /// Where the agent keeps its records, logs, and the folders of replicas.
    #[arg(long, env = "SETPOINT_STATE_DIR", default_value = "/var/lib/setpoint-agent")]
    pub state_dir: PathBuf,
    /// Health and metrics. Nobody has to reach it: logs and commands come by way of the cluster's nodes.
    #[arg(long, env = "SETPOINT_LISTEN_HTTP", default_value = "127.0.0.1:7432")]
    pub listen_http: SocketAddr,
    /// Where others reach the ports of this host's replicas. Left out: the address of --listen-http, or the host's name.
    #[arg(long, env = "SETPOINT_ADVERTISE_HOST")]
    pub advertise_host: Option<String>,
    /// How long the node's lease lasts without a keep-alive, in seconds. Exclusive replicas are stopped after nine tenths of it.
    #[arg(long, env = "SETPOINT_LEASE_TTL_SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(3..=3600))]
    pub lease_ttl_seconds: u32,
    /// Whether memory, processors and processes of replicas are limited by control groups.
    #[arg(long, env = "SETPOINT_CGROUPS", default_value = "auto")]
    pub cgroups: Cgroups,
    /// The group below which replicas have theirs.
    #[arg(long, env = "SETPOINT_CGROUP_PARENT", default_value = "setpoint")]
    pub cgroup_parent: PathBuf,
    /// Processes and threads of a replica, at most; 0: any number.
    #[arg(long, env = "SETPOINT_PIDS_MAX", default_value_t = 4096)]
    pub pids_max: u64,
    /// Open files of a process, at most; 0: as many as the agent may have.
    #[arg(long, env = "SETPOINT_OPEN_FILES_MAX", default_value_t = 0)]
    pub open_files_max: u64,
    /// The socket of the Docker engine; empty: containers are not run.
    #[arg(long, env = "SETPOINT_DOCKER_SOCKET", default_value = "/var/run/docker.sock")]
    pub docker_socket: String,
    /// One log file of a replica, at most.
    #[arg(long, env = "SETPOINT_LOG_BYTES_MAX", default_value_t = 10 << 20)]
    pub log_bytes_max: u64,
    /// Log files of a run, at most.
    #[arg(long, env = "SETPOINT_LOG_FILES_MAX", default_value_t = 5)]
    pub log_files_max: u32,
    /// One artifact, at most.
    #[arg(long, env = "SETPOINT_ARTIFACT_BYTES_MAX", default_value_t = 2 << 30)]
    pub artifact_bytes_max: u64,
    /// All artifacts that are kept, at most.
    #[arg(long, env = "SETPOINT_ARTIFACT_CACHE_BYTES_MAX", default_value_t = 10 << 30)]
    pub artifact_cache_bytes_max: u64,
    /// How long the fetching of one artifact may take, in seconds.
    #[arg(long, env = "SETPOINT_ARTIFACT_SECONDS_MAX", default_value_t = 600)]
    pub artifact_seconds_max: u64,
    /// Who vouches for the servers of artifacts: a file of certificates.
    #[arg(long, env = "SETPOINT_ARTIFACT_AUTHORITIES", default_value = "/etc/ssl/certs/ca-certificates.crt")]
    pub artifact_authorities: PathBuf,
    /// How long what an ended replica wrote is kept while its object is there, in seconds.
    #[arg(long, env = "SETPOINT_KEEP_ENDED_SECONDS", default_value_t = 3600)]
    pub keep_ended_seconds: u64,
    /// What becomes of replicas when the agent is told to stop.
    #[arg(long, env = "SETPOINT_ON_SHUTDOWN", default_value = "keep")]
    pub on_shutdown: OnShutdown,
    /// How long stopping them may take, in seconds.
    #[arg(long, env = "SETPOINT_SHUTDOWN_SECONDS_MAX", default_value_t = 60)]
    pub shutdown_seconds_max: u64,
    /// How the log is written.
    #[arg(long, env = "SETPOINT_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// What is logged: `info`, `setpoint_agent=debug`.
    #[arg(long, env = "SETPOINT_LOG", default_value = "info")]
    pub log: String,
    /// Instead of this host, so many nodes that only pretend: for tests of load.
    #[arg(long, env = "SETPOINT_SIMULATE")]
    pub simulate: Option<u32>,
    /// How simulated replicas and nodes behave.
    #[command(flatten)]
    pub simulation: SimulationArgs,
}

#[derive(Clone, Debug, Args)]
pub struct SimulationArgs {
    /// From when a simulated replica is bound until it serves, in milliseconds.
    #[arg(long, env = "SETPOINT_SIMULATE_START_MS", default_value_t = 0)]
    pub simulate_start_ms: u64,
    /// From when it is not wanted any more until it is stopped, in milliseconds.
    #[arg(long, env = "SETPOINT_SIMULATE_STOP_MS", default_value_t = 0)]
    pub simulate_stop_ms: u64,
    /// Simulated nodes hold their leases, and accept nothing that is bound to them: nobody looks at bindings.
    #[arg(long, env = "SETPOINT_SIMULATE_IDLE")]
    pub simulate_idle: bool,
    /// Simulated nodes are spread evenly over so many zones.
    #[arg(long, env = "SETPOINT_SIMULATE_ZONES", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub simulate_zones: u32,
    /// What their names begin with.
    #[arg(long, env = "SETPOINT_SIMULATE_PREFIX", default_value = "sim")]
    pub simulate_prefix: String,
}

/// A setting that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--{option}: {problem}")]
pub struct SettingProblem {
    pub option: &'static str,
    pub problem: String,
}

/// All that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct SettingProblems(pub Vec<SettingProblem>);

/// What had to be read, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub capacity: Amounts,
    pub reserved: Amounts,
    pub host: String,
    pub lease_ttl: Duration,
}

impl RunArgs {
    /// Everything that is wrong, at once.
    pub fn check(&self) -> Result<Checked, SettingProblems> {
        let mut problems = Vec::new();
        let mut report = |option, problem: String| problems.push(SettingProblem { option, problem });
        let hostname = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
        let name = self.name.clone().unwrap_or_else(|| hostname.clone());
        if let Err(problem) = check_dns_subdomain(&name) {
            report("name", format!("{name:?} {problem}"));
        }
        if let Err(problem) = check_dns_label(&self.zone) {
            report("zone", format!("{:?} {problem}", self.zone));
        }
        let mut labels = BTreeMap::new();
        for label in self.labels.iter().filter(|label| !label.is_empty()) {
            match label.split_once('=') {
                Some((name, value)) => drop(labels.insert(name.to_owned(), value.to_owned())),
                None => report("label", format!("{label:?} is not NAME=VALUE")),
            }
        }
        let capacity =
            amounts(&self.capacity).map_err(|problem| report("capacity", problem)).unwrap_or_default();
        let reserved =
            amounts(&self.reserved).map_err(|problem| report("reserved", problem)).unwrap_or_default();
        if problems.is_empty() {
            let address = self.listen_http.ip();
            let listened = if address.is_unspecified() { hostname } else { address.to_string() };
            let host = self.advertise_host.clone().unwrap_or(listened);
            let lease_ttl = Duration::from_secs(self.lease_ttl_seconds.into());
            return Ok(Checked { name, labels, capacity, reserved, host, lease_ttl });
        }
        Err(SettingProblems(problems))
    }
}

/// `cpu=4,memory=8Gi`
fn amounts(text: &str) -> Result<Amounts, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let read = |part: &str| {
        let (name, amount) = part.split_once('=').ok_or(format!("{part:?} is not NAME=AMOUNT"))?;
        let amount = Unit::of_dimension(name).parse(amount).map_err(|error| format!("{part:?}: {error}"))?;
        Ok((name.to_owned(), amount))
    };
    parts.map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> RunArgs {
        let words = std::iter::once("setpoint-agent").chain(words.iter().copied());
        Cli::try_parse_from(words).expect("the words make sense").run
    }

    #[test]
    fn what_is_wrong_is_told_at_once_by_its_option() {
        let args = args(&["--name", "No", "--zone", "a.b", "--label", "x", "--capacity", "cpu=many"]);
        let problems = args.check().expect_err("four problems").0;
        let options: Vec<&str> = problems.iter().map(|problem| problem.option).collect();
        assert_eq!(options, ["name", "zone", "label", "capacity"]);
    }

    #[test]
    fn amounts_are_read_as_people_write_them() {
        let args = args(&["--name", "n1", "--capacity", "cpu=1500m, memory=2Gi,gpu=3", "--label", "a=b,c=d"]);
        let checked = args.check().expect("good settings");
        assert_eq!(checked.capacity.get("cpu"), Some(1500));
        assert_eq!(checked.capacity.get("memory"), Some(2 << 30));
        assert_eq!(checked.labels.len(), 2);
        assert_eq!(checked.host, "127.0.0.1");
    }
}
