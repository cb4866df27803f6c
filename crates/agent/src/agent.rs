//! Puts an agent together and runs it: lease, registration, caches, supervisor, sessions, HTTP.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use setpoint_client::{BuildError, Client, EndpointError, Settings, config};
use setpoint_runtime::informer::{InformerSettings, Informers, Selection};
use setpoint_types::Uid;
use setpoint_types::kinds::{AgentInfo, Binding, Replica};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::artifact::Fetcher;
use crate::clock::Clock;
use crate::http::{self, Shared};
use crate::http_get::Getter;
use crate::machine::BootTime;
use crate::metrics::AgentMetrics;
use crate::node::capacity;
use crate::node::hold::{Held, Holder};
use crate::node::identity::{Identity, IdentityError};
use crate::node::pressure::Pressure;
use crate::node::register::{Host, RegisterError};
use crate::record::Records;
use crate::runtime::docker::{DockerRuntime, DockerSettings};
use crate::runtime::process::cgroup::Hierarchy;
use crate::runtime::process::run_folder::read_deadline;
use crate::runtime::process::{ProcessRuntime, ProcessSettings};
use crate::runtime::{Runtime, Runtimes};
use crate::sessions::{Lines, SessionHost};
use crate::settings::{Cgroups, Checked, OnShutdown, RunArgs, SettingProblems};
use crate::supervisor::{Parts, Supervisor, chain};

/// How the client calls itself where fields have owners.
pub const MANAGER: &str = "setpoint-agent";

/// How often the host is looked at, and the Node object with it: somebody may have deleted it.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Between attempts to register that failed.
const TRY_AGAIN: Duration = Duration::from_secs(2);

/// Why an agent could not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(transparent)]
    Settings(#[from] SettingProblems),
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error(transparent)]
    Client(#[from] BuildError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("{path}: the agent's files cannot be used")]
    Files {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "{address} cannot be listened on; choose another address with --listen-http or SETPOINT_LISTEN_HTTP"
    )]
    Listen {
        address: String,
        #[source]
        source: std::io::Error,
    },
}

/// A client as the settings say.
pub fn client(args: &RunArgs) -> Result<Client, AgentError> {
    let settings = match args.endpoints.is_empty() {
        true => config::load(args.context.as_deref()).map_err(BuildError::from)?,
        false => {
            let endpoints = args.endpoints.iter().map(|endpoint| endpoint.parse());
            Settings::new(endpoints.collect::<Result<_, EndpointError>>()?)
        }
    };
    Ok(Client::new(settings)?.with_manager(MANAGER))
}

/// Runs an agent until it is told to stop.
pub async fn run(
    args: RunArgs,
    client: Client,
    clock: Clock,
    stop: CancellationToken,
) -> Result<(), AgentError> {
    let checked = args.check()?;
    let files = |source| AgentError::Files { path: args.state_dir.clone(), source };
    let identity = Identity::take(&args.state_dir, &checked.name, client.entropy().draw())?;
    let state = std::path::absolute(&args.state_dir).map_err(files)?;
    let deadline = state.join("deadline");
    let built = Built::new(&args, &checked, &state, &identity.mark).map_err(files)?;
    if built.docker.is_some() && built.runtimes.names().await.len() == 1 {
        tracing::info!(
            socket = args.docker_socket,
            "no Docker engine answers: containers are run once one does"
        );
    }
    let listener = TcpListener::bind(args.listen_http).await;
    let listener =
        listener.map_err(|source| AgentError::Listen { address: args.listen_http.to_string(), source })?;
    let address = listener.local_addr().unwrap_or(args.listen_http);

    let informers = Informers::new(client.clone(), InformerSettings::default());
    let (told, lease) = watch::channel(None);
    let (registered, uid) = watch::channel(None);
    let seen = informers.clone();
    let holder = Holder {
        client: client.clone(),
        node: checked.name.clone(),
        holder: identity.holder.clone(),
        ttl: checked.lease_ttl,
        clock: clock.clone(),
        observed: Arc::new(move || seen.observed()),
        deadline: Some(deadline.clone()),
    };
    let host = host(&args, &checked, &state, &identity, address.port(), &clock);
    let parts = parts(&args, &checked, &built, &informers, &client, &clock);
    let good_until = read_deadline(&deadline).unwrap_or(BootTime(0));
    let supervisor =
        Supervisor::resume(parts, lease.clone(), uid.clone(), good_until).await.map_err(files)?;

    // These outlive the supervisor, which tells the server to the last.
    let background = CancellationToken::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(holder.run(told, background.clone()));
    let ready = readiness(&mut tasks, &informers, uid);
    let shared = Shared { metrics: built.metrics.clone(), lease: Some(lease.clone()), ready };
    tasks.spawn(built.lines(&client, &checked.name, &lease).run());
    // Only who stops its replicas takes no more of them; otherwise the next agent of this host goes on.
    let ends = args.on_shutdown == OnShutdown::Stop;
    let leaving = if ends { stop.clone() } else { CancellationToken::new() };
    let (runtimes, metrics) = (built.runtimes.clone(), built.metrics.clone());
    let registrar = Registrar { client, host, runtimes, state, clock, metrics };
    tasks.spawn(registrar.run(lease, registered, leaving, background.clone()));
    let http = background.clone();
    tasks.spawn(async move {
        if let Err(error) = http::serve(listener, shared, http).await {
            tracing::error!(%error, "the HTTP listener has ended");
        }
    });
    tracing::info!(node = checked.name, zone = args.zone, http = %address, cgroups = built.cgroups, "the agent runs");
    supervisor.run(stop, ends.then(|| Duration::from_secs(args.shutdown_seconds_max))).await;
    background.cancel();
    informers.shutdown().await;
    tasks.abort_all();
    while tasks.join_next().await.is_some() {}
    tracing::info!("the agent has ended");
    Ok(())
}

/// What the supervisor works with.
fn parts(
    args: &RunArgs,
    checked: &Checked,
    built: &Built,
    informers: &Informers,
    client: &Client,
    clock: &Clock,
) -> Parts {
    let of_node = |field: &str| Selection::everywhere().fields(format!("{field}={}", checked.name));
    Parts {
        node: checked.name.clone(),
        host: checked.host.clone(),
        client: client.clone(),
        bindings: informers.cache::<Binding>(of_node("spec.node")),
        replicas: informers.cache::<Replica>(of_node("status.node")),
        records: built.records.clone(),
        runtimes: built.runtimes.clone(),
        fetcher: built.fetcher.clone(),
        clock: clock.clone(),
        metrics: built.metrics.clone(),
        pids: (args.pids_max > 0).then_some(args.pids_max),
        keep_ended: Duration::from_secs(args.keep_ended_seconds),
    }
}

/// True once everything was seen and the node is registered.
fn readiness(
    tasks: &mut JoinSet<()>,
    informers: &Informers,
    mut uid: watch::Receiver<Option<Uid>>,
) -> watch::Receiver<bool> {
    let (say, ready) = watch::channel(false);
    let informers = informers.clone();
    tasks.spawn(async move {
        if informers.synced().await.is_ok() && uid.wait_for(Option::is_some).await.is_ok() {
            say.send_replace(true);
        }
        // Kept, so that its last word stays.
        std::future::pending::<()>().await;
    });
    ready
}

/// What is made from the settings before anything runs.
struct Built {
    records: Records,
    runtimes: Arc<Runtimes>,
    processes: ProcessRuntime,
    docker: Option<Arc<DockerRuntime>>,
    fetcher: Fetcher,
    cgroups: &'static str,
    metrics: Arc<AgentMetrics>,
}

impl Built {
    /// By which sessions come.
    fn lines(&self, client: &Client, node: &str, lease: &watch::Receiver<Option<Held>>) -> Lines {
        let (records, processes) = (self.records.clone(), self.processes.clone());
        Lines {
            client: client.clone(),
            node: node.to_owned(),
            lease: lease.clone(),
            host: Arc::new(SessionHost::new(records, processes, self.docker.clone())),
            metrics: self.metrics.clone(),
        }
    }

    fn new(args: &RunArgs, checked: &Checked, state: &Path, mark: &str) -> std::io::Result<Self> {
        // By the mark of the state folder: agents of one name may share a host, and whose group it is decides who ends what is in it.
        let parent = args.cgroup_parent.join(&checked.name).join(mark);
        let hierarchy = match args.cgroups {
            Cgroups::Auto => Hierarchy::detect(Path::new("/sys/fs/cgroup"), &parent),
            Cgroups::None => Hierarchy::None,
        };
        let cgroups = hierarchy.name();
        let processes = ProcessRuntime::new(ProcessSettings {
            runs: state.join("runs"),
            deadline: state.join("deadline"),
            hierarchy,
            open_files: open_files(args),
            log_bytes: args.log_bytes_max,
            log_files: args.log_files_max,
            // Not by its path: that may be another version by now.
            program: PathBuf::from("/proc/self/exe"),
        })?;
        let docker = docker(args, checked, mark)?;
        let as_runtime = docker.clone().map(|docker| docker as Arc<dyn Runtime>);
        let runtimes = Runtimes { process: Arc::new(processes.clone()), docker: as_runtime };
        Ok(Self {
            records: Records::new(state)?,
            runtimes: Arc::new(runtimes),
            processes,
            docker,
            fetcher: Fetcher {
                cache: state.join("artifacts"),
                cache_bytes_max: args.artifact_cache_bytes_max,
                bytes_max: args.artifact_bytes_max,
                limit: Duration::from_secs(args.artifact_seconds_max),
                getter: Getter::trusting(&args.artifact_authorities),
            },
            cgroups,
            metrics: Arc::new(AgentMetrics::new()),
        })
    }
}

fn open_files(args: &RunArgs) -> Option<u64> {
    (args.open_files_max > 0).then_some(args.open_files_max)
}

fn docker(args: &RunArgs, checked: &Checked, mark: &str) -> std::io::Result<Option<Arc<DockerRuntime>>> {
    if args.docker_socket.is_empty() {
        return Ok(None);
    }
    let docker = DockerRuntime::new(DockerSettings {
        socket: args.docker_socket.clone(),
        node: checked.name.clone(),
        mark: mark.to_owned(),
        open_files: open_files(args),
        log_bytes: args.log_bytes_max,
        log_files: args.log_files_max,
        fetch_limit: Duration::from_secs(args.artifact_seconds_max),
    });
    docker.map(|docker| Some(Arc::new(docker))).map_err(std::io::Error::other)
}

fn host(
    args: &RunArgs,
    checked: &Checked,
    state: &Path,
    identity: &Identity,
    port: u16,
    clock: &Clock,
) -> Host {
    Host {
        name: checked.name.clone(),
        zone: args.zone.clone(),
        labels: checked.labels.clone(),
        capacity: capacity::measure(state, &checked.capacity),
        reserved: checked.reserved.clone(),
        agent: AgentInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            address: format!("{}:{port}", checked.host),
            boot_id: identity.boot_id.clone(),
            started: clock.now().wall,
            // Looked at each time it is told: an engine may come and go.
            runtimes: Vec::new(),
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
        },
    }
}

/// Keeps the Node object true.
struct Registrar {
    client: Client,
    host: Host,
    runtimes: Arc<Runtimes>,
    state: PathBuf,
    clock: Clock,
    metrics: Arc<AgentMetrics>,
}

impl Registrar {
    async fn run(
        mut self,
        mut lease: watch::Receiver<Option<Held>>,
        registered: watch::Sender<Option<Uid>>,
        leaving: CancellationToken,
        stop: CancellationToken,
    ) {
        let mut pressure = Pressure::default();
        stop.run_until_cancelled(async {
            loop {
                let held = lease.borrow_and_update().clone();
                self.metrics.lease_epoch.set(held.as_ref().map_or(0, |it| it.fence.epoch.0 as i64));
                let Some(held) = held else {
                    if lease.changed().await.is_err() {
                        return;
                    }
                    continue;
                };
                pressure = pressure.look(&self.state);
                self.host.agent.runtimes = self.runtimes.names().await;
                let wait = match self.register(&held, pressure, leaving.is_cancelled()).await {
                    Ok(uid) => {
                        registered.send_if_modified(|now| now.replace(uid.clone()) != Some(uid));
                        LOOK_EVERY
                    }
                    Err(error) => {
                        tracing::warn!(error = %chain(&error), "the node cannot be registered");
                        TRY_AGAIN
                    }
                };
                let epoch = held.fence.epoch;
                tokio::select! {
                    () = sleep(wait) => {}
                    () = leaving.cancelled(), if !leaving.is_cancelled() => {}
                    // Renewals are no news; another epoch is.
                    changed = lease.wait_for(|now| now.as_ref().is_none_or(|now| now.fence.epoch != epoch)) => {
                        if changed.is_err() {
                            return;
                        }
                    }
                }
            }
        })
        .await;
    }

    async fn register(&self, held: &Held, pressure: Pressure, leaving: bool) -> Result<Uid, RegisterError> {
        let client = self.client.with_fence(held.fence.clone());
        self.host.register(&client, &held.fence, pressure, !leaving, self.clock.now().wall).await
    }
}
