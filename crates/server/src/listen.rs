//! The gRPC listeners: clients and peers.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use setpoint_api::etcdserverpb::auth_server::AuthServer;
use setpoint_api::etcdserverpb::cluster_server::ClusterServer;
use setpoint_api::etcdserverpb::kv_server::KvServer;
use setpoint_api::etcdserverpb::lease_server::LeaseServer;
use setpoint_api::etcdserverpb::maintenance_server::MaintenanceServer;
use setpoint_api::etcdserverpb::watch_server::WatchServer;
use setpoint_api::raw::v1::objects_server::ObjectsServer;
use setpoint_api::setpoint::v1::coordination_server::CoordinationServer;
use setpoint_api::v3electionpb::election_server::ElectionServer;
use setpoint_api::v3lockpb::lock_server::LockServer;
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
use setpoint_apiserver::objects::ObjectsService;
use setpoint_apiserver::objects::write::Writer;
use setpoint_consensus::{PeerService, peer_listener};
use tokio::net::TcpListener;
use tokio_stream::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Server, ServerTlsConfig};
use tower::util::MapResponseLayer;

use crate::config::ServerConfig;
use crate::draining::DrainLayer;
use crate::gather::Gathering;
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

pub struct Sockets {
    pub client: TcpListener,
    pub peer: TcpListener,
    pub http: TcpListener,
}

pub async fn bind(config: &ServerConfig) -> Result<Sockets, ListenError> {
    let listen = async |setting, address| {
        TcpListener::bind(address).await.map_err(|source| ListenError { setting, address, source })
    };
    Ok(Sockets {
        client: listen("listen-client", config.listen_client).await?,
        peer: listen("listen-peer", config.listen_peer).await?,
        http: listen("listen-http", config.listen_http).await?,
    })
}

/// What a message may hold beyond the largest request, as etcd allows.
const MESSAGE_SLACK: usize = 512 << 10;
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(20);
const KEEP_ALIVE_PATIENCE: Duration = Duration::from_secs(20);
/// Streams one connection may have open at a time.
const STREAMS_PER_CONNECTION: u32 = 100_000;

/// What clients are served with.
pub struct Services {
    pub context: Context,
    pub objects: Writer,
    pub coordinator: Coordinator,
}

pub async fn serve_clients(
    socket: TcpListener,
    services: Services,
    tls: Option<ServerTlsConfig>,
    drain: DrainLayer,
) {
    let Services { context, objects, coordinator } = services;
    let stop = drain.stopping.clone();
    let message_max = context.limits.request_bytes + MESSAGE_SLACK;
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_service_status("", tonic_health::ServingStatus::Serving).await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(setpoint_api::FILE_DESCRIPTOR_SET)
        .build_v1()
        .expect("the descriptors come from the same build as this program");
    let encrypted = tls.is_some();
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEP_ALIVE_EVERY))
        .http2_keepalive_timeout(Some(KEEP_ALIVE_PATIENCE))
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20);
    let mut server = match with_tls(server, tls) {
        Ok(server) => server
            .layer(drain)
            .layer(MeasureLayer::new(context.metrics.clone(), context.replica.node.status()))
            .layer(MapResponseLayer::new(oversize::in_etcds_words)),
        Err(error) => return tracing::error!(error = %error, "the certificate for clients cannot be used"),
    };
    macro_rules! sized {
        ($service:expr) => {
            $service.max_decoding_message_size(message_max).max_encoding_message_size(usize::MAX)
        };
    }
    let router = server
        .add_service(sized!(KvServer::new(KvService(context.clone()))))
        .add_service(sized!(WatchServer::new(WatchService(context.clone()))))
        .add_service(sized!(LeaseServer::new(LeaseService(context.clone()))))
        .add_service(sized!(ClusterServer::new(ClusterService(context.clone()))))
        .add_service(sized!(MaintenanceServer::new(MaintenanceService(context.clone()))))
        .add_service(sized!(AuthServer::new(AuthService(context.clone()))))
        .add_service(sized!(LockServer::new(LockService(context.clone()))))
        .add_service(sized!(ElectionServer::new(ElectionService(context))))
        .add_service(sized!(ObjectsServer::new(ObjectsService {
            reader: objects.reader.clone(),
            writer: objects
        })))
        .add_service(sized!(CoordinationServer::new(CoordinationService(coordinator))))
        .add_service(health_service)
        .add_service(reflection);
    let incoming = connections(socket, encrypted);
    if let Err(error) = router.serve_with_incoming_shutdown(incoming, stop.cancelled_owned()).await {
        tracing::error!(error = %error, "the client listener ended");
    }
}

pub async fn serve_peers(
    socket: TcpListener,
    service: PeerService,
    tls: Option<PeerTlsConfig>,
    stop: CancellationToken,
) {
    let encrypted = tls.is_some();
    let mut server = match with_tls(peer_listener(), tls.map(|tls| tls.server)) {
        Ok(server) => server,
        Err(error) => return tracing::error!(error = %error, "the certificate for peers cannot be used"),
    };
    let incoming = connections(socket, encrypted);
    let serving = server.add_service(service).serve_with_incoming_shutdown(incoming, stop.cancelled_owned());
    if let Err(error) = serving.await {
        tracing::error!(error = %error, "the peer listener ended");
    }
}

/// Without waiting to fill packets: that would cost a conversation of small messages tens of milliseconds.
fn connections(socket: TcpListener, encrypted: bool) -> impl Stream<Item = io::Result<Gathering>> {
    let gathering = if encrypted { Gathering::passing } else { Gathering::new };
    TcpIncoming::from(socket).with_nodelay(Some(true)).map(move |socket| socket.map(gathering))
}

fn with_tls(server: Server, tls: Option<ServerTlsConfig>) -> Result<Server, tonic::transport::Error> {
    match tls {
        Some(tls) => server.tls_config(tls),
        None => Ok(server),
    }
}
