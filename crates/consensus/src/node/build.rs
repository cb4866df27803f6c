//! Putting the parts of a node together, and starting them.

use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::acquaintance::Inquiry;
use super::status::{Observer, Route, Status};
use super::trim::Trim;
use super::vigil::Vigil;
use super::{Inner, Node};
use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::counters::Counters;
use crate::error::StartError;
use crate::forward::{ForwardTask, Forwarder};
use crate::host::{Host, LeaderService};
use crate::log::{self, DirFs, Growth, Ignore, LogFs, LogObserver, LogOptions, LogStore, LogThread, Pledge};
use crate::machine::{Applied, Machine};
use crate::membership::MembershipRecord;
use crate::propose::{Batcher, Proposals};
use crate::raft::Raft;
use crate::read::{Authority, ReadRounds};
use crate::snapshot::{Depot, DepotError, Receiver};
use crate::state::{Progress, StateMachine};
use crate::transport::{Connector, Identity, Links, NetworkFactory, TcpConnector};

/// The log's folder in the node's directory.
const LOG: &str = "raft";

/// What a node needs from outside. The first three have to be given; the rest has a usual choice.
pub struct Seams {
    pub machine: Arc<dyn Machine>,
    pub service: Arc<dyn LeaderService>,
    pub host: Arc<dyn Host>,
    pub connector: Arc<dyn Connector>,
    pub clock: Arc<dyn Clock>,
    pub log_files: Option<Arc<dyn LogFs>>,
    pub log_options: LogOptions,
    pub log_observer: Arc<dyn LogObserver>,
}

impl Seams {
    pub fn new(machine: Arc<dyn Machine>, service: Arc<dyn LeaderService>, host: Arc<dyn Host>) -> Self {
        Self {
            machine,
            service,
            host,
            connector: Arc::new(TcpConnector::default()),
            clock: Arc::new(SystemClock),
            log_files: None,
            log_options: LogOptions::default(),
            log_observer: Arc::new(Ignore),
        }
    }
}

/// What both openraft's side and ours hold on to.
struct Shared {
    progress: Arc<Progress>,
    links: Arc<Links>,
    pledge: Arc<Pledge>,
    growth: Arc<Growth>,
    depot: Arc<Depot>,
}

impl Shared {
    fn trim(&self, config: &Config, raft: &Raft) -> Trim {
        Trim {
            raft: raft.clone(),
            progress: Arc::clone(&self.progress),
            growth: Arc::clone(&self.growth),
            depot: Arc::clone(&self.depot),
            retention: config.log.clone(),
        }
    }
}

/// The tasks of a node that is built but does not run yet.
pub(super) struct Parts {
    batcher: Batcher,
    forward: ForwardTask,
    rounds: ReadRounds,
    observer: Observer,
    trim: Trim,
}

impl Node {
    /// Opens the log, recovers the state machine and puts everything together. The node answers its peers and takes
    /// part in elections only after `run`, so that its services can be mounted in between.
    pub async fn build(config: Config, seams: Seams) -> Result<Self, StartError> {
        let raft_config = config.raft().map_err(|error| StartError::Config(error.to_string()))?;
        let (applied, depot) = open_machine(&config, Arc::clone(&seams.machine)).await?;
        let record = MembershipRecord::decode(applied.membership.as_ref())
            .map_err(|error| StartError::Inconsistent(error.to_string()))?;
        let progress = Arc::new(Progress::new(applied.position.map(|position| position.index), record));
        let state = StateMachine::new(Arc::clone(&seams.machine), Arc::clone(&progress), Arc::clone(&depot))
            .map_err(|source| StartError::Directory { directory: config.directory.clone(), source })?;

        let identity = Identity { cluster: config.cluster, node: config.id };
        let links = Links::new(identity, Arc::clone(&seams.connector), config.timing.clone());
        let links = Arc::new(links);
        let (log, log_thread) = open_log(&config, &seams).await?;
        let (pledge, growth) = (log.pledge(), log.growth());
        let network = NetworkFactory::new(Arc::clone(&links), Arc::clone(&progress));
        let raft = Raft::build(config.id.0, Arc::new(raft_config), network, log, state)
            .await
            .map_err(|error| StartError::Inconsistent(error.to_string()))?;
        let shared = Shared { progress, links, pledge, growth, depot };
        Ok(Self::assemble(config, seams, raft, shared, log_thread))
    }

    fn assemble(config: Config, seams: Seams, raft: Raft, shared: Shared, log_thread: LogThread) -> Self {
        let trim = shared.trim(&config, &raft);
        let Shared { progress, links, pledge, .. } = shared;
        let identity = links.identity().clone();
        let Seams { machine, service, host, clock, .. } = seams;
        let (limits, timing) = (&config.limits, &config.timing);
        let counters = Arc::new(Counters::default());
        let proposals = Arc::new(Proposals::new(limits));
        let (forwarder, asked) = Forwarder::new(limits);
        let (observer, route, status) = observe(&config, &raft, &progress, &links, &host);
        let (voted, committed) = (Arc::clone(&pledge), Arc::clone(&progress));
        let authority = Authority::new(config.id, voted, committed, route.clone(), status.clone());
        let authority = Arc::new(authority);
        let (reads, rounds) = ReadRounds::new(
            Arc::clone(&authority),
            Arc::clone(&forwarder),
            route.clone(),
            Arc::clone(&counters),
            timing.read,
            limits.waiting_reads,
        );
        let batcher = Batcher {
            raft: raft.clone(),
            proposals: Arc::clone(&proposals),
            host: Arc::clone(&host),
            clock,
            limits: limits.clone(),
            counters: Arc::clone(&counters),
        };
        let forward = ForwardTask {
            forwarder: Arc::clone(&forwarder),
            asked,
            links: Arc::clone(&links),
            route: route.clone(),
            host: Arc::clone(&host),
            pledge,
            counters: Arc::clone(&counters),
            waiting_calls: limits.waiting_calls,
        };
        let inquiry = Inquiry::new(links, host, raft.clone(), timing.leader_silence());
        let hearing = Arc::clone(&observer.hearing);
        let receiver = Receiver::new(config.directory.join("recv"), timing.snapshot_stall);
        let parts = Mutex::new(Some(Parts { batcher, forward, rounds, observer, trim }));
        let inner = Inner {
            config,
            identity,
            raft,
            machine,
            service,
            proposals,
            forwarder,
            reads,
            authority,
            progress,
            counters,
            receiver,
            inquiry,
            hearing,
            route,
            status,
            changing: tokio::sync::Mutex::default(),
            shutdown: CancellationToken::new(),
            tasks: TaskTracker::new(),
            parts,
            log_thread: Mutex::new(Some(log_thread)),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Starts the node. A second call has no effect.
    pub fn run(&self) {
        let Some(parts) = self.inner.parts.lock().take() else { return };
        let (tasks, shutdown) = (&self.inner.tasks, &self.inner.shutdown);
        self.inner.raft.run();
        tasks.spawn(parts.batcher.run(shutdown.clone()));
        tasks.spawn(parts.forward.run(shutdown.clone()));
        tasks.spawn(parts.rounds.run(shutdown.clone()));
        tasks.spawn(parts.observer.run(shutdown.clone()));
        tasks.spawn(parts.trim.run(shutdown.clone()));
        tasks.spawn(self.inner.inquiry.clone().run(self.status(), shutdown.clone()));
    }
}

fn observe(
    config: &Config,
    raft: &Raft,
    progress: &Arc<Progress>,
    links: &Arc<Links>,
    host: &Arc<dyn Host>,
) -> (Observer, watch::Receiver<Route>, watch::Receiver<Status>) {
    let (route_sender, route) = watch::channel(Route::Unknown);
    let (status_sender, status) = watch::channel(Status::unknown(config.id));
    let observer = Observer {
        raft: raft.clone(),
        progress: Arc::clone(progress),
        links: Arc::clone(links),
        host: Arc::clone(host),
        hearing: Arc::default(),
        vigil: Vigil::new(config.timing.leader_silence()),
        route: route_sender,
        status: status_sender,
    };
    (observer, route, status)
}

/// Reads how far the machine has come and prepares the directories beside it.
async fn open_machine(
    config: &Config,
    machine: Arc<dyn Machine>,
) -> Result<(Applied, Arc<Depot>), StartError> {
    let (snap, recv) = (config.directory.join("snap"), config.directory.join("recv"));
    let opened = spawn_blocking(move || {
        remove(&recv)?;
        let depot = Depot::open(Arc::clone(&machine), snap).map_err(start_error)?;
        let applied = machine.applied().map_err(StartError::Machine)?;
        Ok((applied, Arc::new(depot)))
    });
    opened.await.map_err(|error| StartError::Inconsistent(error.to_string()))?
}

/// Whether a node has ever begun a log in the directory. `Node::build` begins one, durably, before it returns.
pub fn has_log(directory: &Path) -> io::Result<bool> {
    log::begun(&directory.join(LOG))
}

async fn open_log(config: &Config, seams: &Seams) -> Result<(LogStore, LogThread), StartError> {
    let directory = config.directory.join(LOG);
    let files = seams.log_files.clone();
    let (options, observer) = (seams.log_options.clone(), Arc::clone(&seams.log_observer));
    let opened = spawn_blocking(move || {
        let unprepared = |source| StartError::Directory { directory: directory.clone(), source };
        let files = match files {
            Some(files) => files,
            None => Arc::new(DirFs::open(&directory).map_err(unprepared)?),
        };
        let (store, writer) = log::open(files, options, observer)
            .map_err(|source| StartError::Log { directory: directory.clone(), source })?;
        let thread = writer.spawn().map_err(unprepared)?;
        Ok((store, thread))
    });
    opened.await.map_err(|error| StartError::Inconsistent(error.to_string()))?
}

fn remove(directory: &Path) -> Result<(), StartError> {
    match std::fs::remove_dir_all(directory) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(StartError::Directory { directory: directory.to_owned(), source })
        }
        _ => Ok(()),
    }
}

fn start_error(error: DepotError) -> StartError {
    match error {
        DepotError::Machine(failure) => StartError::Machine(failure),
        DepotError::Directory { directory, source } => StartError::Directory { directory, source },
        other => StartError::Inconsistent(other.to_string()),
    }
}
