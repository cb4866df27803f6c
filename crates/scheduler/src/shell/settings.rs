//! What can be set, as options of the program, environment variables, or in a test.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use setpoint_runtime::election;
use setpoint_runtime::informer::InformerSettings;
use setpoint_runtime::recorder::RecorderSettings;

use crate::core::engine::Options;
use crate::core::place::Search;

/// Every knob of a scheduler.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// The name its leases and its writes have. Schedulers with the same name share the work.
    #[arg(long, env = "SETPOINT_SCHEDULER_NAME", default_value = "scheduler")]
    pub name: String,
    /// How many leases the workloads are split over: so many schedulers can work at the same time. The same for all of them.
    #[arg(long, env = "SETPOINT_SCHEDULER_SHARDS", default_value_t = 4)]
    pub shards: u32,
    /// How long the work of a scheduler that is gone is nobody's.
    #[arg(long, env = "SETPOINT_SCHEDULER_LEASE_TTL", default_value = "15s", value_parser = humantime::parse_duration)]
    pub lease_ttl: Duration,
    /// Work without leases. Only if there is no other scheduler.
    #[arg(long, env = "SETPOINT_SCHEDULER_ALONE")]
    pub alone: bool,
    /// The namespace of the leases. It must exist.
    #[arg(long, env = "SETPOINT_SCHEDULER_LEASE_NAMESPACE", default_value = "default")]
    pub lease_namespace: String,
    /// How many binds a request has at most.
    #[arg(long, env = "SETPOINT_SCHEDULER_BATCH", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=4000))]
    pub batch: u32,
    /// How many requests with binds are under way at most. A plan is a request per shard, so this is some four plans.
    #[arg(long, env = "SETPOINT_SCHEDULER_REQUESTS", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub requests: u32,
    /// For a few replicas, how many nodes that would do are compared.
    #[arg(long, env = "SETPOINT_SCHEDULER_SAMPLE", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub sample: u32,
    /// How many statuses of replicas are written at the same time.
    #[arg(long, env = "SETPOINT_SCHEDULER_STATUS_WRITES", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub status_writes: u32,
    /// After so long those who wait are looked at again though nothing happened that could help them.
    #[arg(long, env = "SETPOINT_SCHEDULER_FLUSH", default_value = "5m", value_parser = humantime::parse_duration)]
    pub flush: Duration,
    /// How long a place is kept for a replica whose victims are leaving.
    #[arg(long, env = "SETPOINT_SCHEDULER_NOMINATION", default_value = "2m", value_parser = humantime::parse_duration)]
    pub nomination: Duration,
    #[arg(skip)]
    pub informers: InformerSettings,
    #[arg(skip)]
    pub recorder: RecorderSettings,
}

/// Where metrics and health are served.
pub const HTTP_DEFAULT: &str = "127.0.0.1:7422";

/// The address of the HTTP listener.
#[derive(Clone, Copy, Debug, Args)]
pub struct HttpSettings {
    /// Where /metrics, /livez and /readyz are served.
    #[arg(long = "listen-http", env = "SETPOINT_SCHEDULER_LISTEN_HTTP", default_value = HTTP_DEFAULT)]
    pub listen: SocketAddr,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "scheduler".to_owned(),
            shards: 4,
            lease_ttl: Duration::from_secs(15),
            alone: false,
            lease_namespace: "default".to_owned(),
            batch: 512,
            requests: 16,
            sample: 100,
            status_writes: 16,
            flush: Duration::from_secs(300),
            nomination: Duration::from_secs(120),
            informers: InformerSettings::default(),
            recorder: RecorderSettings::default(),
        }
    }
}

impl Settings {
    pub(super) fn engine(&self) -> Options {
        Options {
            batch: self.batch as usize,
            search: Search { sample: self.sample as usize, explains: false },
            flush_ms: ms(self.flush),
            nomination_ms: ms(self.nomination),
            ..Options::default()
        }
    }

    pub(super) fn leases(&self) -> election::Settings {
        election::Settings {
            shards: self.shards,
            ttl_seconds: u32::try_from(self.lease_ttl.as_secs()).unwrap_or(u32::MAX),
            namespace: self.lease_namespace.clone(),
            ..election::Settings::default()
        }
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
