//! The whole of it: the store, schedulers, controllers and hosts, each a process, and a client that looks at all of it.

use std::fmt::Debug;
use std::fs;
use std::time::{Duration, Instant};

use setpoint_client::{Client, Settings};
use setpoint_cluster_tests::testbed::{Setup, Testbed, patiently};
use setpoint_etcd_tests::ports::free_ports;

use crate::host::Host;
use crate::program::Program;

/// How long something may take. Generous: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(100);
const CALL: Duration = Duration::from_secs(60);
const LOG_LINES: usize = 25;

/// Everything that waits for time waits for little.
const CONTROLLERS: &str = "
leases: {ttl_seconds: 5}
node_monitor: {period_seconds: 1, give_up_every_seconds: 1, drain_period_seconds: 1}
quota: {show_seconds: 1, audit_seconds: 5}
garbage_collector: {interval_seconds: 5}
";

pub struct Estate {
    pub hosts: Vec<Host>,
    pub schedulers: Vec<Program>,
    pub controllers: Vec<Program>,
    pub client: Client,
    /// Last, because all others write into its folder.
    pub bed: Testbed,
}

impl Estate {
    /// Everything runs and is ready. Host `a1` is in zone `z1`, and so on.
    pub async fn start(name: &'static str) -> Self {
        Self::start_with(name, "").await
    }

    /// The same, with hosts that run containers by the engine at this socket.
    pub async fn start_with(name: &'static str, socket: &str) -> Self {
        let bed = Testbed::start_with(name, Setup::calm()).await;
        let folder = bed.cluster.root().to_owned();
        let endpoints = bed.addresses();
        let quoted: Vec<String> = endpoints.iter().map(|endpoint| format!("'{endpoint}'")).collect();
        let config = format!(
            "current-context: here\nclusters:\n- {{name: here, endpoints: [{}]}}\ncontexts:\n- {{name: here, cluster: here}}\n",
            quoted.join(", ")
        );
        let (config_path, knobs) = (folder.join("config"), folder.join("controllers.yaml"));
        fs::write(&config_path, config).expect("written");
        fs::write(&knobs, CONTROLLERS).expect("written");
        let config_path = config_path.display().to_string();
        let ports = free_ports(7).expect("free ports");
        let mut http = ports.into_iter().map(|port| format!("127.0.0.1:{port}"));
        let mut next = || http.next().expect("as many as were asked for");
        let mut hosts = Vec::new();
        let group = format!("setpoint-test-{}-{name}", std::process::id());
        for number in 1..=3 {
            let (name, zone) = (format!("a{number}"), format!("z{number}"));
            hosts.push(Host::new(&name, &zone, next(), &folder, &group, &endpoints, socket).await);
        }
        let scheduler = |number: usize, http| {
            Program::new(&format!("scheduler-{number}"), "setpoint-scheduler", http, &folder)
                .with(&["--lease-ttl", "5s"])
                .with_variable("SETPOINT_CONFIG", &config_path)
                .with_variable("SETPOINT_LOG", "info")
        };
        let controllers = |number: usize, http| {
            Program::new(&format!("controllers-{number}"), "setpoint-controllers", http, &folder)
                .with(&["--file", &knobs.display().to_string()])
                .with_variable("SETPOINT_CONFIG", &config_path)
        };
        let schedulers = (1..=2).map(|number| scheduler(number, next())).collect();
        let controllers = (1..=2).map(|number| controllers(number, next())).collect();
        let client = client(&endpoints);
        let mut estate = Self { hosts, schedulers, controllers, client, bed };
        estate.programs().for_each(Program::start);
        for program in estate.programs() {
            program.ready().await;
        }
        estate
    }

    /// All but the store.
    fn programs(&mut self) -> impl Iterator<Item = &mut Program> {
        let agents = self.hosts.iter_mut().map(|host| &mut host.agent);
        agents.chain(&mut self.schedulers).chain(&mut self.controllers)
    }

    pub fn host(&mut self, name: &str) -> &mut Host {
        self.hosts.iter_mut().find(|host| host.name == name).expect("a host of that name")
    }

    /// The newest revision of the store.
    pub async fn revision(&self) -> u64 {
        u64::try_from(patiently(|| self.bed.clients[0].revision()).await).expect("a revision")
    }

    /// What was looked for, once it is there. What is seen instead is told if it does not come.
    pub async fn until<T, S: Debug>(&self, what: &str, mut look: impl AsyncFnMut() -> Result<T, S>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match look().await {
                Ok(found) => return found,
                Err(seen) => {
                    assert!(Instant::now() < deadline, "{what}: did not happen in time, but: {seen:#?}");
                }
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Everything that should run runs, and nothing has ever panicked.
    pub fn check(&mut self) {
        self.programs().for_each(Program::check);
        self.bed.no_panics();
    }
}

impl Drop for Estate {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.programs().for_each(|program| eprintln!("{}", program.log_tail(LOG_LINES)));
        }
    }
}

fn client(addresses: &[String]) -> Client {
    let endpoints = addresses.iter().map(|address| address.parse().expect("an address")).collect();
    let mut settings = Settings::new(endpoints);
    settings.timeouts.call = CALL;
    settings.attempts_max = 1000;
    Client::new(settings).expect("settings that fit").with_manager("test")
}
