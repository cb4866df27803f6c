//! Everything that the controllers of a process share, and their life from start to end.
//!
//! ```text
//! new ──▶ add, add ──▶ run:  kinds defined ──▶ caches synced ──▶ ready ──▶ controllers and elections ──▶ shutdown: no new runs ──▶
//!         runs end, or their time is up ──▶ leases given back ──▶ informers stopped
//! ```

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};
use setpoint_client::Client;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::controller::engine::{Engine, Part, Surroundings};
use crate::controller::metrics::ControllerMetrics;
use crate::controller::ownership::{Alone, Ownership};
use crate::controller::source::Primary;
use crate::controller::{Controller, ControllerError, Options};
use crate::election::{self, Election, ElectionMetrics};
use crate::ensure::{EnsureError, ensure_kind};
use crate::http::{self, Http, Shown};
use crate::informer::{InformerMetrics, InformerSettings, Informers};
use crate::queue::QueueMetrics;
use crate::recorder::{Recorder, RecorderMetrics, RecorderSettings, SettingProblem};
use crate::wall_clock::WallClock;

/// What a manager can be told, as a config file has it. Unknown names are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManagerSettings {
    /// Of the program. Its replicas have the same.
    pub name: String,
    /// Whether replicas agree by leases which of them works. Without, there may be only one.
    #[serde(default = "default_election")]
    pub election: bool,
    /// The leases; how many there are for each controller is the controller's to say.
    #[serde(default)]
    pub leases: election::Settings,
    /// How long runs may go on after a shutdown was asked for. What is not over by then is dropped.
    #[serde(default = "default_shutdown_ms")]
    pub shutdown_ms: u64,
    /// Events and decisions.
    #[serde(default)]
    pub recorder: RecorderSettings,
    /// Where `/metrics`, `/livez` and `/readyz` are served, as plain HTTP for everybody who reaches it; nowhere if it is left out. Port 0
    /// is any that is free: [`Manager::http_address`].
    #[serde(default)]
    pub listen_http: Option<SocketAddr>,
    /// How caches are kept.
    #[serde(default)]
    pub informers: InformerSettings,
}

fn default_election() -> bool {
    true
}

/// Less than the grace that supervisors give a process before they kill it, which is often 30 s.
fn default_shutdown_ms() -> u64 {
    20_000
}

impl ManagerSettings {
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            election: default_election(),
            leases: election::Settings::default(),
            shutdown_ms: default_shutdown_ms(),
            recorder: RecorderSettings::default(),
            listen_http: None,
            informers: InformerSettings::default(),
        }
    }

    /// With `/metrics`, `/livez` and `/readyz` at this address.
    #[must_use]
    pub fn listening(mut self, http: SocketAddr) -> Self {
        self.listen_http = Some(http);
        self
    }

    /// For the only process there is. Its writes carry no fence.
    #[must_use]
    pub fn without_election(mut self) -> Self {
        self.election = false;
        self
    }
}

/// Why a manager could not be made, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    #[error("the name of the program is empty")]
    Name,
    #[error("the settings of the recorder make no sense: {0:?}")]
    Recorder(Vec<SettingProblem>),
    #[error("the controller {controller} cannot be added")]
    Controller {
        controller: String,
        #[source]
        source: ControllerError,
    },
    #[error("{address} cannot be listened on; is another program there?")]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("the kind {kind} of the controller {controller} cannot be defined")]
    Kind {
        kind: String,
        controller: String,
        #[source]
        source: Box<EnsureError>,
    },
    #[error("an informer has ended")]
    Informers,
    #[error("a part of the controllers has ended: {part}")]
    Ended { part: Part },
    #[error("a part of the controllers has panicked")]
    Panicked(#[source] JoinError),
}

/// The controllers of a process.
///
/// **Guarantees**
/// - Controllers start once every cache has its first state, and only work on keys whose lease this process holds; until then it
///   is a warm standby.
/// - Two processes are never the same to the cluster, whatever their names: each draws an identity of its own.
/// - If a part ends that should not, all end, and [`Manager::run`] says which: half a controller is worse than none.
/// - Kinds that its controllers bring along ([`Controller::defines`]) are served before any of them starts.
/// - After shutdown was asked for no run begins; those there are may end within `shutdown_ms`; then the leases are given back.
///
/// **Assumes** a runtime of tokio that lasts as long as the manager.
///
/// **Does not promise** that a process which is killed gives its leases back: they run out. Nor to tell a process from a copy that was
/// made of it while it ran, by a snapshot of its machine: both have one identity then, and one fence.
pub struct Manager {
    settings: ManagerSettings,
    identity: String,
    around: Surroundings,
    election_metrics: ElectionMetrics,
    registry: Arc<Mutex<Registry>>,
    http: Option<Http>,
    controllers: Mutex<Vec<Added>>,
    ready: watch::Sender<bool>,
}

struct Added {
    controller: Controller,
    primary: Primary,
    options: Options,
    /// None: there is no other process.
    election: Option<Election>,
}

impl Manager {
    pub fn new(client: Client, settings: ManagerSettings) -> Result<Self, ManagerError> {
        if settings.name.is_empty() {
            return Err(ManagerError::Name);
        }
        let mut registry = Registry::with_prefix("setpoint");
        let recorder_metrics = RecorderMetrics::new(&mut registry);
        let recorder = Recorder::new(&client, &settings.name, settings.recorder.clone(), recorder_metrics);
        let around = Surroundings {
            recorder: recorder.map_err(ManagerError::Recorder)?,
            informers: Informers::new(client.clone(), settings.informers),
            clock: WallClock::system(),
            metrics: ControllerMetrics::new(&mut registry),
            queue_metrics: QueueMetrics::new(&mut registry),
            client,
        };
        InformerMetrics::show(&around.informers, &mut registry);
        let election_metrics = ElectionMetrics::new(&mut registry);
        let identity = format!("{}-{:016x}", settings.name, around.client.entropy().draw());
        let (registry, controllers) = (Arc::new(Mutex::new(registry)), Mutex::default());
        let ready = watch::Sender::new(false);
        let http = settings.listen_http.map(|address| {
            let (informers, ready) = (around.informers.clone(), ready.subscribe());
            let shown = Shown { registry: registry.clone(), informers, ready };
            Http::bind(address, shown).map_err(|source| ManagerError::Listen { address, source })
        });
        let http = http.transpose()?;
        Ok(Self { settings, identity, around, election_metrics, registry, http, controllers, ready })
    }

    /// The same with another clock, for tests.
    #[must_use]
    pub fn with_clock(mut self, clock: WallClock) -> Self {
        self.around.clock = clock;
        self
    }

    pub fn client(&self) -> &Client {
        &self.around.client
    }

    /// Where caches come from.
    pub fn informers(&self) -> &Informers {
        &self.around.informers
    }

    /// What this process is called where leases are held. No other has it.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// True from when the caches are synced and the controllers started until shutdown begins. A standby is ready.
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    /// Where it serves HTTP, if it does: from [`Manager::run`] on until that ends.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(Http::address)
    }

    /// All metrics, as text in the format of OpenMetrics.
    pub fn metrics(&self) -> String {
        http::encode(&self.registry)
    }

    /// For metrics of your own.
    pub fn register(&self, register: impl FnOnce(&mut Registry)) {
        register(&mut self.registry.lock());
    }

    /// Takes a controller, if it makes sense. It starts with [`Manager::run`].
    pub fn add(&self, controller: Controller) -> Result<(), ManagerError> {
        let name = controller.name.clone();
        let failed = |source| ManagerError::Controller { controller: name.to_string(), source };
        let (primary, options) = controller.check().map_err(failed)?;
        for source in &controller.sources {
            if !self.around.informers.has(&source.cache) {
                return Err(failed(ControllerError::Cache { kind: source.cache.kind.to_string() }));
            }
        }
        let mut controllers = self.controllers.lock();
        if controllers.iter().any(|added| added.controller.name == name) {
            return Err(failed(ControllerError::Twice));
        }
        let election = self.election(&name, options.settings.shards).map_err(failed)?;
        controllers.push(Added { controller, primary, options, election });
        Ok(())
    }

    fn election(&self, controller: &str, shards: u32) -> Result<Option<Election>, ControllerError> {
        if !self.settings.election {
            return Ok(None);
        }
        let (client, informers) = (&self.around.client, &self.around.informers);
        let options = election::Settings { shards, ..self.settings.leases.clone() }.check()?;
        let election = Election::new(client, informers, controller, &self.identity, options)?;
        let seen = informers.clone();
        Ok(Some(election.with_metrics(&self.election_metrics).observing(move || seen.observed())))
    }

    /// Runs all controllers until `shutdown` ends, or something does that should not. Call it once. Dropped, everything stops at
    /// once, and the leases run out.
    pub async fn run(&self, shutdown: impl Future<Output = ()>) -> Result<(), ManagerError> {
        let shutdown = shutdown.fuse();
        tokio::pin!(shutdown);
        let _serving = self.serve()?;
        self.say_hello();
        let informers = &self.around.informers;
        let flush = CancellationToken::new();
        let (recorder, flushed) = (self.around.recorder.clone(), flush.clone());
        // Of the set, so that it ends with this future, should that be dropped.
        let mut recording = JoinSet::new();
        recording.spawn(async move { recorder.run(flushed).await });
        let synced = async {
            self.define().await?;
            informers.synced().await.map_err(|_| ManagerError::Informers)
        };
        let synced = tokio::select! {
            () = &mut shutdown => None,
            synced = synced => Some(synced),
        };
        let ended = match synced {
            None => Ok(()),
            Some(Err(error)) => Err(error),
            Some(Ok(())) => self.work(shutdown).await,
        };
        flush.cancel();
        // A panic of the recorder loses records, and nothing else.
        if let Some(Err(_)) = recording.join_next().await {
            tracing::error!("the recorder has panicked");
        }
        informers.shutdown().await;
        tracing::info!(program = self.settings.name, "stopped");
        ended
    }

    /// Whoever looks at a silent terminal knows what it waits for.
    fn say_hello(&self) {
        let servers: Vec<&str> = self.around.client.endpoints().iter().map(|it| it.as_str()).collect();
        let servers = servers.join(",");
        tracing::info!(program = self.settings.name, servers, "starting: kinds are defined, caches filled");
    }

    /// Serves HTTP until what it returns is dropped.
    fn serve(&self) -> Result<Option<DropGuard>, ManagerError> {
        let Some(http) = &self.http else { return Ok(None) };
        let failed = |source| ManagerError::Listen { address: http.address(), source };
        http.start().map(Some).map_err(failed)
    }

    /// The kinds that controllers bring along are served once this returns.
    async fn define(&self) -> Result<(), ManagerError> {
        let of_controller = |added: &Added| {
            let name = added.controller.name.clone();
            added.controller.definitions.iter().map(move |it| (name.clone(), it.clone())).collect::<Vec<_>>()
        };
        let definitions: Vec<_> = self.controllers.lock().iter().flat_map(of_controller).collect();
        for (controller, definition) in definitions {
            let kind = definition.names.kind.clone();
            let defined = ensure_kind(&self.around.client.with_manager(&*controller), definition).await;
            let failed = |source| ManagerError::Kind {
                kind,
                controller: controller.to_string(),
                source: Box::new(source),
            };
            defined.map_err(failed)?;
        }
        Ok(())
    }

    /// From when the caches are synced until the leases are given back.
    async fn work(&self, shutdown: impl Future<Output = ()>) -> Result<(), ManagerError> {
        let mut parts = Parts::default();
        let engines = self.start(&mut parts);
        self.ready.send_replace(true);
        match self.settings.election {
            true => tracing::info!(
                identity = self.identity,
                "ready: works once it has a lease, and stands by until then"
            ),
            false => tracing::info!("ready"),
        }
        let ended = tokio::select! {
            () = shutdown => Ok(()),
            ended = first_end(&mut parts.tasks) => Err(ended),
            ended = first_end(&mut parts.elections) => Err(ended),
            () = self.around.informers.any_ended() => Err(ManagerError::Informers),
        };
        self.ready.send_replace(false);
        tracing::info!("stopping: runs end, then the leases are given back");
        self.wind_down(&engines, parts).await;
        ended
    }

    fn start(&self, parts: &mut Parts) -> Vec<Engine> {
        let added = std::mem::take(&mut *self.controllers.lock());
        let start = |added: Added| {
            let ownership: Arc<dyn Ownership> = match added.election {
                Some(election) => {
                    let (shards, leave) = (election.shards(), parts.leave.clone());
                    parts.elections.spawn(async move {
                        election.run(leave).await;
                        "election"
                    });
                    Arc::new(shards)
                }
                None => Arc::new(Alone::new()),
            };
            let engine = Engine::new(added.controller, added.options, added.primary, ownership, &self.around);
            engine.start(&mut parts.tasks, &parts.stop);
            engine
        };
        added.into_iter().map(start).collect()
    }

    /// Lets runs end within their time, ends the rest, then gives the leases back.
    async fn wind_down(&self, engines: &[Engine], mut parts: Parts) {
        engines.iter().for_each(Engine::shut_down);
        let quiet = async {
            for engine in engines {
                engine.quiet().await;
            }
        };
        let patience = Duration::from_millis(self.settings.shutdown_ms);
        if timeout(patience, quiet).await.is_err() {
            tracing::warn!("runs were dropped at shutdown: they took too long");
        }
        parts.stop.cancel();
        parts.tasks.shutdown().await;
        // Nobody works any more, so nothing has to be waited for. An election bounds its own end.
        parts.leave.cancel();
        while parts.elections.join_next().await.is_some() {}
    }
}

/// The tasks of all controllers, and how they are told to stop.
#[derive(Default)]
struct Parts {
    tasks: JoinSet<Part>,
    stop: CancellationToken,
    elections: JoinSet<Part>,
    leave: CancellationToken,
}

/// No task ends by itself.
async fn first_end(tasks: &mut JoinSet<Part>) -> ManagerError {
    match tasks.join_next().await {
        Some(Ok(part)) => ManagerError::Ended { part },
        Some(Err(error)) => ManagerError::Panicked(error),
        // There are no controllers: there is nothing to wait for but the shutdown.
        None => std::future::pending().await,
    }
}
