//! Putting a node together, and taking it apart again in good order.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use setpoint_access::Authorizer;
use setpoint_apiserver::access::Roles;
use setpoint_apiserver::collector::Collector;
use setpoint_apiserver::coordination::{ClusterKeeper, CoordinationLimits, Coordinator};
use setpoint_apiserver::etcd::context::Context;
use setpoint_apiserver::housekeeping::Housekeeping;
use setpoint_apiserver::leader::LeaderDesk;
use setpoint_apiserver::lease::{Lessor, LessorOptions, Renewals};
use setpoint_apiserver::load::Load;
use setpoint_apiserver::metrics::Metrics;
use setpoint_apiserver::objects::definitions::Definitions;
use setpoint_apiserver::objects::write::{ClusterCommits, Turns, WriteLimits, Writer};
use setpoint_apiserver::objects::{Catalog, Index, ReadLimits, Reader};
use setpoint_apiserver::quota::Quota;
use setpoint_apiserver::replica::{Applier, GenerationError, Generations, Halt, Proposals, Replica};
use setpoint_apiserver::watch::Hub;
use setpoint_consensus::{Config, MemberError, Node, Seams, StartError, SystemClock, TcpConnector};
use setpoint_store::command::MemberAttributes;
use setpoint_store::{EngineFailure, Store};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::{Access, AccessError};
use crate::config::ServerConfig;
use crate::console::Console;
use crate::door::{Shares, TooFew};
use crate::draining::DrainLayer;
use crate::engines::RocksEngines;
use crate::host::ServerHost;
use crate::identify::IdentifyLayer;
use crate::identity::{self, IdentityError, Membership};
use crate::listen::{self, ListenError};
use crate::metrics::NodeMetrics;
use crate::{http, tls};

/// Memory for the newest changes, from which watches are served.
const RING_BYTES: usize = 16 << 20;
/// Memory for labels and selectable fields of objects: about a million objects with four labels.
const INDEX_BYTES_MAX: usize = 256 << 20;
/// Backups made at a time: one that somebody waits for beside one that runs by the clock.
const BACKUPS_AT_ONCE: usize = 2;
/// What a request may take beyond two elections, before it is answered with a timeout.
const REQUEST_PATIENCE: Duration = Duration::from_secs(5);
/// What connections may take to end once the last request on them is answered; a client that does not read is not
/// waited for any longer.
const CLOSING_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("the data folder {path} cannot be used")]
    Folder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the data folder {path} is in use by another process")]
    Locked { path: PathBuf },
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    #[error("the state cannot be opened")]
    State(#[from] GenerationError),
    #[error("the state cannot be read")]
    Engine(#[from] EngineFailure),
    #[error("consensus cannot start")]
    Consensus(#[from] StartError),
    #[error("the cluster cannot be founded")]
    Found(#[source] MemberError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Descriptors(#[from] TooFew),
    #[error("this node's storage, log or one of its listeners failed; see the log above")]
    Failed,
}

/// Runs a node until `stop` is cancelled or it fails.
pub async fn run(config: ServerConfig, stop: CancellationToken) -> Result<(), NodeError> {
    let _lock = lock_folder(&config)?;
    let shares = Shares::claim()?;
    let peer_tls = config.peer_tls.as_ref().map(tls::peer).transpose()?;
    let client_tls = config.client_tls.as_ref().map(tls::server).transpose()?;
    let mut access = Access::open(&config)?;
    // Before anybody is told of us: who cannot listen should not be a member.
    let addresses = listen::bind(&config)?;
    let connector = Arc::new(TcpConnector::new(peer_tls.as_ref().map(|tls| tls.client.clone())));
    // Joining may take minutes.
    let Some(membership) = stop.run_until_cancelled(identity::establish(&config, &*connector)).await else {
        return Ok(());
    };
    let membership = membership?;

    let failed = CancellationToken::new();
    let mut registry = Registry::with_prefix("setpoint");
    let parts = assemble(&config, &membership, connector, &access, failed.clone(), &mut registry).await?;
    identity::log_begun(&config.data_dir)?;
    let node = parts.context.replica.node.clone();

    let doors = addresses.open(shares, &mut registry)?;
    let tasks = TaskTracker::new();
    let ended = CancellationToken::new();
    // Not among the tasks that are waited for: peers keep their connections open, and the last word to them is said.
    let peers = listen::serve_peers(doors.peer, node.peer_service(), peer_tls, ended.clone());
    tokio::spawn(listen::serving("peer", peers, ended.clone(), failed.clone()));
    node.run();
    found(&node, &membership).await?;
    parts.start(&config, &tasks, ended.clone());
    access.start(&tasks, ended.clone());
    let stopping = parts.context.stopping.clone();
    let drain = DrainLayer { stopping: stopping.clone(), requests: TaskTracker::new() };
    let clients = TaskTracker::new();
    let index = parts.objects.reader.index.clone();
    let metrics = NodeMetrics::new(parts.context.clone(), index, access.audit.clone(), registry);
    let services = parts.services(access.identify.clone());
    let front = listen::Front::new(services, drain.clone()).await;
    let console = Console::new(&config, front.calls(), shares.http);
    let served = listen::serve_clients(doors.client, front, client_tls);
    clients.spawn(listen::serving("client", served, stopping, failed.clone()));
    let served = http::serve(doors.http, parts.context, metrics, console, ended.clone());
    tasks.spawn(listen::serving("HTTP", served, ended.clone(), failed.clone()));
    tracing::info!(
        name = config.name, node = %membership.identity.member, cluster = %membership.identity.cluster,
        clients = %config.listen_client, peers = %config.listen_peer, http = %config.listen_http, "serving"
    );

    let outcome = tokio::select! {
        () = stop.cancelled() => Ok(()),
        () = failed.cancelled() => Err(NodeError::Failed),
    };
    if outcome.is_ok() {
        // Leadership moves on while clients are still served; only then are they let go, with their answers.
        node.resign().await;
        let_go(&drain, &clients, request_patience(&config) + Duration::from_secs(1)).await;
        node.end().await;
    } else {
        // Nothing can be answered any more; once consensus has ended, every request says so.
        node.shutdown().await;
        let_go(&drain, &clients, CLOSING_PATIENCE).await;
    }
    ended.cancel();
    tasks.close();
    if tokio::time::timeout(CLOSING_PATIENCE, tasks.wait()).await.is_err() {
        tracing::debug!("some connections did not end in time and are dropped");
    }
    access.close().await;
    outcome
}

/// Takes no further clients, ends their streams and waits for the answers to everything else. `patience` is more than
/// any request waits for the cluster.
async fn let_go(drain: &DrainLayer, clients: &TaskTracker, patience: Duration) {
    drain.stopping.cancel();
    drain.requests.close();
    clients.close();
    if tokio::time::timeout(patience, drain.requests.wait()).await.is_err() {
        tracing::warn!(requests = drain.requests.len(), "some requests were not answered before the stop");
    }
    if tokio::time::timeout(CLOSING_PATIENCE, clients.wait()).await.is_err() {
        tracing::debug!("some clients did not close their connections in time; they are dropped");
    }
}

/// How long a request waits for the cluster.
fn request_patience(config: &ServerConfig) -> Duration {
    REQUEST_PATIENCE + 4 * config.timing.election_max
}

struct Parts {
    context: Context,
    objects: Writer,
    coordinator: Coordinator,
    renewals_stop: CancellationToken,
}

async fn assemble(
    config: &ServerConfig,
    membership: &Membership,
    connector: Arc<TcpConnector>,
    access: &Access,
    failed: CancellationToken,
    registry: &mut Registry,
) -> Result<Parts, NodeError> {
    let identity = membership.identity;
    let engines = Box::new(RocksEngines(config.engine.clone()));
    let (generations, engine) = Generations::open(&config.data_dir.join("state"), engines)?;
    let store = Arc::new(tokio::task::block_in_place(|| Store::open(engine))?);
    let hub = Arc::new(Hub::new(store.revision(), RING_BYTES));
    #[expect(
        clippy::disallowed_methods,
        reason = "tells this life of the node from earlier ones; not replicated"
    )]
    let proposals = Proposals::new(identity.member, rand::random());
    let applier = Arc::new(Applier::new(identity.member, store, hub, proposals.clone(), generations));

    let mut consensus = Config::new(identity.member, identity.cluster, &config.data_dir);
    consensus.timing = config.timing.clone();
    consensus.log = config.log.clone();
    let scratch = config.data_dir.join("backup");
    clear(&scratch)?;
    let desk = Arc::new(LeaderDesk::default());
    let halt = Halt::new(failed.clone());
    let host = ServerHost { proposals, store: applier.store.clone(), failed };
    let mut seams = Seams::new(applier.clone(), desk.clone(), Arc::new(host));
    seams.connector = connector;
    seams.log_observer = crate::metrics::LogMetrics::new(registry);
    let node = Node::build(consensus, seams).await?;

    let replica = Replica::new(identity, node, &applier, request_patience(config));
    let lessor_options = LessorOptions::for_election(2 * config.timing.election_max);
    let lessor = Lessor::new(replica.clone(), Arc::new(SystemClock), lessor_options);
    desk.open(replica.clone(), lessor.clone());
    let renewals_stop = CancellationToken::new();
    let context = Context {
        gate: access.gate.clone(),
        renewals: Renewals::start(replica.node.clone(), lessor.grace(), renewals_stop.clone()),
        collector: Collector::new(replica.store.clone(), halt.clone()),
        lessor,
        quota: Arc::new(Quota::new(config.quota_bytes)),
        metrics: Metrics::new(registry),
        limits: config.limits.clone(),
        load: Load::new(config.load),
        peer_scheme: if config.peer_tls.is_some() { "https" } else { "http" },
        scratch,
        backups: Arc::new(Semaphore::new(BACKUPS_AT_ONCE)),
        halt,
        stopping: CancellationToken::new(),
        replica,
    };
    let objects = writer(&context, access.authorizer.clone());
    let coordinator = coordinator(&context, objects.clone());
    Ok(Parts { context, objects, coordinator, renewals_stop })
}

fn coordinator(context: &Context, objects: Writer) -> Coordinator {
    let Context { replica, lessor, renewals, stopping, .. } = context.clone();
    let keeper = Arc::new(ClusterKeeper { replica, lessor, renewals });
    Coordinator::new(objects, keeper, CoordinationLimits::default(), stopping)
}

/// What the object API reads and writes with.
fn writer(context: &Context, authorizer: Arc<Authorizer>) -> Writer {
    let (replica, quota) = (context.replica.clone(), context.quota.clone());
    let reader = reader(context);
    let roles = Arc::new(Roles::new(reader.store.clone(), authorizer));
    #[expect(clippy::disallowed_methods, reason = "the one place where uids and generated names come from")]
    let draw = Arc::new(rand::random::<u128>);
    Writer {
        reader,
        roles,
        turns: Arc::new(Turns::new(draw() as u64)),
        commits: Arc::new(ClusterCommits { replica, quota }),
        clock: Arc::new(SystemClock),
        draw,
        limits: WriteLimits::default(),
    }
}

fn reader(context: &Context) -> Reader {
    let (store, catalog) = (context.replica.store.clone(), Arc::new(Catalog::built_in()));
    Reader {
        definitions: Arc::new(Definitions::new(store.clone(), catalog.clone())),
        store,
        hub: context.replica.hub.clone(),
        barrier: Arc::new(context.replica.clone()),
        catalog,
        index: Arc::new(Index::new(INDEX_BYTES_MAX)),
        limits: ReadLimits::default(),
        load: context.load.clone(),
        watches_overtaken: context.metrics.watches_overtaken.clone(),
        halt: context.halt.clone(),
    }
}

impl Parts {
    fn services(&self, identify: IdentifyLayer) -> listen::Services {
        let (context, objects) = (self.context.clone(), self.objects.clone());
        listen::Services { identify, context, objects, coordinator: self.coordinator.clone() }
    }

    /// Starts what the node does by itself.
    fn start(&self, config: &ServerConfig, tasks: &TaskTracker, stop: CancellationToken) {
        let scheme = if config.client_tls.is_some() { "https" } else { "http" };
        let attributes = MemberAttributes {
            name: config.name.clone(),
            client_urls: vec![format!("{scheme}://{}", config.advertise_client)],
        };
        let (replica, quota) = (self.context.replica.clone(), self.context.quota.clone());
        let housekeeping = Housekeeping::new(replica, quota, attributes, config.retention);
        tasks.spawn(housekeeping.run(stop.clone()));
        tasks.spawn(self.context.lessor.clone().run(stop.clone()));
        tasks.spawn(self.context.collector.clone().run(stop.clone()));
        let Reader { store, hub, catalog, definitions, index, halt, .. } = self.objects.reader.clone();
        tasks.spawn(definitions.run(hub.clone(), halt.clone(), stop.clone()));
        tasks.spawn(self.objects.roles.clone().run(hub.clone(), halt.clone(), stop.clone()));
        tasks.spawn(index.run(store, hub, catalog, halt, stop.clone()));
        let renewals_stop = self.renewals_stop.clone();
        tasks.spawn(async move {
            stop.cancelled().await;
            renewals_stop.cancel();
        });
    }
}

/// Founders start their log with the founding members. Each may: all write the same.
async fn found(node: &Node, membership: &Membership) -> Result<(), NodeError> {
    let Some(founders) = &membership.founders else { return Ok(()) };
    match node.initialize(founders.clone()).await {
        Ok(()) | Err(MemberError::AlreadyInitialized) => Ok(()),
        Err(error) => Err(NodeError::Found(error)),
    }
}

/// Removes what backups left behind that were being made when the node ended.
fn clear(scratch: &Path) -> Result<(), NodeError> {
    match fs::remove_dir_all(scratch) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(NodeError::Folder { path: scratch.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// Two processes on one folder would destroy it.
fn lock_folder(config: &ServerConfig) -> Result<File, NodeError> {
    let path = &config.data_dir;
    let failed = |source| NodeError::Folder { path: path.clone(), source };
    fs::create_dir_all(path).map_err(failed)?;
    let lock = File::create(path.join("LOCK")).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::WouldBlock) => Err(NodeError::Locked { path: path.clone() }),
        Err(fs::TryLockError::Error(source)) => Err(failed(source)),
    }
}
