//! The gRPC listeners: clients and peers.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use http::{Request, Response};
use prometheus_client::registry::Registry;
use setpoint_api::etcdserverpb::auth_server::AuthServer;
use setpoint_api::etcdserverpb::cluster_server::ClusterServer;
use setpoint_api::etcdserverpb::kv_server::KvServer;
use setpoint_api::etcdserverpb::lease_server::LeaseServer;
use setpoint_api::etcdserverpb::maintenance_server::MaintenanceServer;
use setpoint_api::etcdserverpb::watch_server::WatchServer;
use setpoint_api::raw::v1::objects_server::ObjectsServer;
use setpoint_api::setpoint::v1::access_server::AccessServer;
use setpoint_api::setpoint::v1::coordination_server::CoordinationServer;
use setpoint_api::setpoint::v1::ledgers_server::LedgersServer;
use setpoint_api::setpoint::v1::placement_server::PlacementServer;
use setpoint_api::setpoint::v1::sessions_server::SessionsServer;
use setpoint_api::v3electionpb::election_server::ElectionServer;
use setpoint_api::v3lockpb::lock_server::LockServer;
use setpoint_apiserver::access::AccessService;
use setpoint_apiserver::coordination::{CoordinationService, Coordinator};
use setpoint_apiserver::etcd::auth::AuthService;
use setpoint_apiserver::etcd::cluster::ClusterService;
use setpoint_apiserver::etcd::context::Context;
use setpoint_apiserver::etcd::election::ElectionService;
use setpoint_apiserver::etcd::kv::KvService;
use setpoint_apiserver::etcd::lease::LeaseService;
use setpoint_apiserver::etcd::lock::LockService;
use setpoint_apiserver::etcd::maintenance::MaintenanceService;
use setpoint_apiserver::etcd::watch::WatchService;
use setpoint_apiserver::ledgers::LedgersService;
use setpoint_apiserver::objects::ObjectsService;
use setpoint_apiserver::objects::write::Writer;
use setpoint_apiserver::placement::{PlacementLimits, PlacementService, Placer};
use setpoint_apiserver::sessions::{SessionsService, Switchboard};
use setpoint_consensus::{PeerService, peer_listener};
use tokio::net::TcpSocket;
use tokio_stream::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::service::Routes;
use tonic::transport::{Server, ServerTlsConfig};
use tower::Layer;
use tower::util::{BoxCloneSyncService, MapResponseLayer};

use crate::admit::AdmitLayer;
use crate::config::ServerConfig;
use crate::door::{Door, Guest, Refusals, Shares};
use crate::draining::DrainLayer;
use crate::gather::Gathering;
use crate::identify::IdentifyLayer;
use crate::measure::MeasureLayer;
use crate::oversize;
use crate::tls::PeerTlsConfig;

#[derive(Debug, thiserror::Error)]
#[error("--{setting} {address} cannot be listened on")]
pub struct ListenError {
    setting: &'static str,
    address: SocketAddr,
    #[source]
    source: io::Error,
}

/// Addresses that are ours, at which nobody is answered yet: whoever calls is refused, rather than left waiting.
pub struct Addresses {
    client: Address,
    peer: Address,
    http: Address,
}

struct Address {
    setting: &'static str,
    address: SocketAddr,
    socket: TcpSocket,
}

/// Takes the addresses, so that a node which cannot have them tells nobody of itself.
pub fn bind(config: &ServerConfig) -> Result<Addresses, ListenError> {
    Ok(Addresses {
        client: Address::take("listen-client", config.listen_client)?,
        peer: Address::take("listen-peer", config.listen_peer)?,
        http: Address::take("listen-http", config.listen_http)?,
    })
}

impl Address {
    fn take(setting: &'static str, address: SocketAddr) -> Result<Self, ListenError> {
        let take = || {
            let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
            // Or a node could not be started again while connections of its former life fade away.
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            Ok(socket)
        };
        take().map(|socket| Self { setting, address, socket }).map_err(|source| ListenError {
            setting,
            address,
            source,
        })
    }

    fn open(self, name: &'static str, size: usize, refusals: &Refusals) -> Result<Door, ListenError> {
        let Self { setting, address, socket } = self;
        let listener = socket.listen(BACKLOG).map_err(|source| ListenError { setting, address, source })?;
        Ok(Door::new(name, listener, size, refusals))
    }
}

pub struct Doors {
    pub client: Door,
    pub peer: Door,
    pub http: Door,
}

impl Addresses {
    pub fn open(self, shares: Shares, registry: &mut Registry) -> Result<Doors, ListenError> {
        let refusals = Refusals::default();
        refusals.register(registry);
        Ok(Doors {
            client: self.client.open("client", shares.clients, &refusals)?,
            peer: self.peer.open("peer", shares.peers, &refusals)?,
            http: self.http.open("http", shares.http, &refusals)?,
        })
    }
}

/// Serves until the stop. A node that has lost a listener stops: it would look well to whoever does not need that one.
pub async fn serving<E: std::error::Error + 'static>(
    name: &'static str,
    served: impl Future<Output = Result<(), E>>,
    stop: CancellationToken,
    failed: CancellationToken,
) {
    // Also if it panics.
    let fails = failed.drop_guard();
    let served = served.await;
    if stop.is_cancelled() {
        fails.disarm();
        return;
    }
    match served {
        Ok(()) => tracing::error!("the {name} listener ended"),
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "the {name} listener ended");
        }
    }
}

/// Connections that wait to be accepted; what the standard library asks for is less than a storm of clients.
const BACKLOG: u32 = 1024;
/// What a message may hold beyond the largest request, as etcd allows.
const MESSAGE_SLACK: usize = 512 << 10;
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(20);
const KEEP_ALIVE_PATIENCE: Duration = Duration::from_secs(20);
/// Streams one connection may have open at a time.
const STREAMS_PER_CONNECTION: u32 = 100_000;

/// What clients are served with.
pub struct Services {
    pub identify: IdentifyLayer,
    pub context: Context,
    pub objects: Writer,
    pub coordinator: Coordinator,
}

/// What clients reach: the services, behind everything that stands before them. Clones share it.
#[derive(Clone)]
pub struct Front {
    routes: Routes,
    drain: DrainLayer,
    measure: MeasureLayer,
    identify: IdentifyLayer,
    admit: AdmitLayer,
}

/// Calls within this process, which come by the same way as those of clients.
pub type Calls = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

impl Front {
    pub async fn new(services: Services, drain: DrainLayer) -> Self {
        let (identify, context) = (services.identify.clone(), services.context.clone());
        Self {
            routes: routes(services).await,
            drain,
            measure: MeasureLayer::new(context.metrics.clone(), context.replica.node.status()),
            identify,
            admit: AdmitLayer(context.load),
        }
    }

    /// For whoever speaks for clients of another protocol: the console.
    pub fn calls(&self) -> Calls {
        let oversize = MapResponseLayer::new(oversize::in_etcds_words);
        let seated = oversize.layer(self.admit.layer(self.routes.clone()));
        BoxCloneSyncService::new(self.drain.layer(self.measure.layer(self.identify.layer(seated))))
    }
}

pub async fn serve_clients(
    door: Door,
    front: Front,
    tls: Option<ServerTlsConfig>,
) -> Result<(), tonic::transport::Error> {
    let Front { routes, drain, measure, identify, admit } = front;
    let stop = drain.stopping.clone();
    let encrypted = tls.is_some();
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEP_ALIVE_EVERY))
        .http2_keepalive_timeout(Some(KEEP_ALIVE_PATIENCE))
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20);
    let router = with_tls(server, tls)?
        .layer(drain)
        .layer(measure)
        .layer(identify)
        .layer(MapResponseLayer::new(oversize::in_etcds_words))
        .layer(admit)
        .add_routes(routes);
    router.serve_with_incoming_shutdown(connections(door, encrypted), stop.cancelled_owned()).await
}

async fn routes(services: Services) -> Routes {
    let Services { context, objects, coordinator, .. } = services;
    let gate = context.gate.clone();
    let placer = Placer::new(objects.clone(), PlacementLimits::default());
    let (reader, board) = (objects.reader.clone(), Switchboard::new(objects.draw.clone()));
    let sessions = SessionsService { reader, gate: gate.clone(), board };
    let message_max = context.limits.request_bytes + MESSAGE_SLACK;
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_service_status("", tonic_health::ServingStatus::Serving).await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(setpoint_api::FILE_DESCRIPTOR_SET)
        .build_v1()
        .expect("the descriptors come from the same build as this program");
    macro_rules! sized {
        ($service:expr) => {
            $service.max_decoding_message_size(message_max).max_encoding_message_size(usize::MAX)
        };
    }
    Routes::new(sized!(KvServer::new(KvService(context.clone()))))
        .add_service(sized!(WatchServer::new(WatchService(context.clone()))))
        .add_service(sized!(LeaseServer::new(LeaseService(context.clone()))))
        .add_service(sized!(ClusterServer::new(ClusterService(context.clone()))))
        .add_service(sized!(MaintenanceServer::new(MaintenanceService(context.clone()))))
        .add_service(sized!(AuthServer::new(AuthService(context.clone()))))
        .add_service(sized!(LockServer::new(LockService(context.clone()))))
        .add_service(sized!(ElectionServer::new(ElectionService(context))))
        .add_service(sized!(LedgersServer::new(LedgersService {
            reader: objects.reader.clone(),
            gate: gate.clone(),
        })))
        .add_service(sized!(ObjectsServer::new(ObjectsService {
            reader: objects.reader.clone(),
            writer: objects,
            gate: gate.clone(),
        })))
        .add_service(sized!(SessionsServer::new(sessions)))
        .add_service(sized!(AccessServer::new(AccessService { gate: gate.clone() })))
        .add_service(sized!(PlacementServer::new(PlacementService { placer, gate: gate.clone() })))
        .add_service(sized!(CoordinationServer::new(CoordinationService { coordinator, gate })))
        .add_service(health_service)
        .add_service(reflection)
        .prepare()
}

pub async fn serve_peers(
    door: Door,
    service: PeerService,
    tls: Option<PeerTlsConfig>,
    stop: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let encrypted = tls.is_some();
    let mut server = with_tls(peer_listener(), tls.map(|tls| tls.server))?;
    let router = server.add_service(service);
    router.serve_with_incoming_shutdown(connections(door, encrypted), stop.cancelled_owned()).await
}

fn connections(door: Door, encrypted: bool) -> impl Stream<Item = io::Result<Gathering<Guest>>> {
    let gathering = if encrypted { Gathering::passing } else { Gathering::new };
    door.guests(encrypted).map(move |guest| guest.map(gathering))
}

fn with_tls(server: Server, tls: Option<ServerTlsConfig>) -> Result<Server, tonic::transport::Error> {
    match tls {
        Some(tls) => server.tls_config(tls),
        None => Ok(server),
    }
}
