//! Everything that the controllers of a process share, and their life from start to end.
//!
//! ```text
//! new ──▶ add, add ──▶ run:  caches synced ──▶ ready ──▶ controllers and elections ──▶ shutdown: no new runs ──▶
//!         runs end, or their time is up ──▶ leases given back ──▶ informers stopped
//! ```

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
use tokio_util::sync::CancellationToken;

use crate::controller::engine::{Engine, Part, Surroundings};
use crate::controller::metrics::ControllerMetrics;
use crate::controller::ownership::{Alone, Ownership};
use crate::controller::source::Primary;
use crate::controller::{Controller, ControllerError, Options};
use crate::informer::{InformerSettings, Informers};
use crate::queue::QueueMetrics;
use crate::recorder::{Recorder, RecorderMetrics, RecorderSettings, SettingProblem};
use crate::wall_clock::WallClock;

/// What a manager can be told, as a config file has it. Unknown names are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManagerSettings {
    /// Of the program. Its replicas have the same.
    pub name: String,
    /// Where its leases are.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Whether replicas agree by leases which of them works. Without, there may be only one.
    #[serde(default = "default_election")]
    pub election: bool,
    /// How long runs may go on after a shutdown was asked for. What is not over by then is dropped.
    #[serde(default = "default_shutdown_ms")]
    pub shutdown_ms: u64,
    /// Events and decisions.
    #[serde(default)]
    pub recorder: RecorderSettings,
    #[serde(skip)]
    pub informers: InformerSettings,
}

fn default_namespace() -> String {
    "default".to_owned()
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
            namespace: default_namespace(),
            election: default_election(),
            shutdown_ms: default_shutdown_ms(),
            recorder: RecorderSettings::default(),
            informers: InformerSettings::default(),
        }
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
/// - After shutdown was asked for no run begins; those there are may end within `shutdown_ms`; then the leases are given back.
///
/// **Assumes** a runtime of tokio that lasts as long as the manager.
///
/// **Does not promise** that a process which is killed gives its leases back: they run out.
pub struct Manager {
    settings: ManagerSettings,
    identity: String,
    around: Surroundings,
    registry: Mutex<Registry>,
    controllers: Mutex<Vec<Added>>,
    ready: watch::Sender<bool>,
}

struct Added {
    controller: Controller,
    primary: Primary,
    options: Options,
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
        let identity = format!("{}-{:016x}", settings.name, around.client.entropy().draw());
        let (registry, controllers) = (Mutex::new(registry), Mutex::default());
        Ok(Self { settings, identity, around, registry, controllers, ready: watch::Sender::new(false) })
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

    /// All metrics, as text in the format of OpenMetrics.
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry.lock())
            .expect("a String takes whatever is written");
        text
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
        controllers.push(Added { controller, primary, options });
        Ok(())
    }

    /// Runs all controllers until `shutdown` ends, or something does that should not. Call it once.
    pub async fn run(&self, shutdown: impl Future<Output = ()>) -> Result<(), ManagerError> {
        let shutdown = shutdown.fuse();
        tokio::pin!(shutdown);
        let (informers, stop) = (&self.around.informers, CancellationToken::new());
        let mut tasks = JoinSet::new();
        let (recorder, last) = (self.around.recorder.clone(), CancellationToken::new());
        let flushed = last.clone();
        let recording = tokio::spawn(async move { recorder.run(flushed).await });
        let synced = tokio::select! {
            () = &mut shutdown => None,
            synced = informers.synced() => Some(synced.map_err(|_| ManagerError::Informers)),
        };
        let ended = match synced {
            None => Ok(()),
            Some(Err(error)) => Err(error),
            Some(Ok(())) => {
                let engines = self.start(&mut tasks, &stop);
                self.ready.send_replace(true);
                let ended = tokio::select! {
                    () = &mut shutdown => Ok(()),
                    ended = first_end(&mut tasks) => Err(ended),
                };
                self.ready.send_replace(false);
                self.wind_down(&engines, tasks, &stop).await;
                ended
            }
        };
        last.cancel();
        // A panic of the recorder loses records, and nothing else; it was logged.
        let _ = recording.await;
        informers.shutdown().await;
        ended
    }

    fn start(&self, tasks: &mut JoinSet<Part>, stop: &CancellationToken) -> Vec<Engine> {
        let added = std::mem::take(&mut *self.controllers.lock());
        let start = |added: Added| {
            let ownership: Arc<dyn Ownership> = Arc::new(Alone::new());
            let engine = Engine::new(added.controller, added.options, added.primary, ownership, &self.around);
            engine.start(tasks, stop);
            engine
        };
        added.into_iter().map(start).collect()
    }

    /// Lets runs end within their time, then ends the rest.
    async fn wind_down(&self, engines: &[Engine], mut tasks: JoinSet<Part>, stop: &CancellationToken) {
        engines.iter().for_each(Engine::shut_down);
        // Workers end by themselves once the queues are shut down; the keepers let go of what they hold when told to stop.
        let workers = async {
            for engine in engines {
                engine.quiet().await;
            }
        };
        let patience = Duration::from_millis(self.settings.shutdown_ms);
        if timeout(patience, workers).await.is_err() {
            tracing::warn!("runs were dropped at shutdown: they took too long");
        }
        stop.cancel();
        tasks.shutdown().await;
    }
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
