//! The server's services over the log of one, behind one wire.

use std::sync::Arc;
use std::time::Duration;

use setpoint_access::{Authorizer, Policy, builtin_roles};
use setpoint_api::raw::v1::objects_server::ObjectsServer;
use setpoint_api::setpoint::v1::access_server::AccessServer;
use setpoint_api::setpoint::v1::coordination_server::CoordinationServer;
use setpoint_api::setpoint::v1::ledgers_server::LedgersServer;
use setpoint_api::setpoint::v1::placement_server::PlacementServer;
use setpoint_api::setpoint::v1::sessions_server::SessionsServer;
use setpoint_apiserver::access::{AccessService, Gate, Roles};
use setpoint_apiserver::coordination::{CoordinationLimits, CoordinationService, Coordinator};
use setpoint_apiserver::ledgers::LedgersService;
use setpoint_apiserver::objects::definitions::Definitions;
use setpoint_apiserver::objects::write::{Turns, WriteLimits, Writer};
use setpoint_apiserver::objects::{Catalog, Index, ObjectsService, ReadLimits, Reader};
use setpoint_apiserver::placement::{PlacementLimits, PlacementService, Placer};
use setpoint_apiserver::replica::Halt;
use setpoint_apiserver::sessions::{SessionsService, Switchboard};
use setpoint_client::{Entropy, Wire};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::service::Routes;
use tower::ServiceExt;

use super::log::Log;
use super::time_keeper::TimeKeeper;

/// Of the index of labels and fields.
const INDEX_BYTES_MAX: usize = 64 << 20;
/// A watch that ends by itself ends at a random moment, so here none does: cutting one is a fault, made on purpose.
const WATCH_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);
/// Requests may be as large as the largest object, and more.
const REQUEST_BYTES_MAX: usize = 16 << 20;

/// The services, and what the node does by itself until `stop`.
pub fn start(log: &Arc<Log>, entropy: Entropy, guarded: bool, stop: &CancellationToken) -> Wire {
    let authorizer = Arc::new(match guarded {
        true => Authorizer::on(Policy::compile(&builtin_roles(), &[])),
        false => Authorizer::off(),
    });
    let writer = writer(log, entropy, authorizer.clone());
    let keeper = Arc::new(TimeKeeper::new(log.clone()));
    let Reader { store, hub, catalog, definitions, index, halt, .. } = writer.reader.clone();
    tokio::spawn(keeper.clone().run(stop.clone()));
    tokio::spawn(definitions.run(hub.clone(), halt.clone(), stop.clone()));
    tokio::spawn(writer.roles.clone().run(hub.clone(), halt.clone(), stop.clone()));
    tokio::spawn(index.run(store, hub, catalog, halt, stop.clone()));

    let gate = Gate::new(authorizer, None, None, log.clock.clone());
    let coordinator = Coordinator::new(writer.clone(), keeper, CoordinationLimits::default(), stop.clone());
    let placer = Placer::new(writer.clone(), PlacementLimits::default());
    let placement = PlacementService { placer, gate: gate.clone() };
    let board = Switchboard::new(writer.draw.clone());
    let sessions = SessionsService { reader: writer.reader.clone(), gate: gate.clone(), board };
    let (reader, ledgers) = (writer.reader.clone(), writer.reader.clone());
    let objects = ObjectsService { reader, writer, gate: gate.clone() };
    let ledgers = LedgersService { reader: ledgers, gate: gate.clone() };
    let routes = Routes::new(ObjectsServer::new(objects).max_decoding_message_size(REQUEST_BYTES_MAX))
        .add_service(AccessServer::new(AccessService { gate: gate.clone() }))
        .add_service(CoordinationServer::new(CoordinationService { coordinator, gate }))
        .add_service(LedgersServer::new(ledgers))
        .add_service(SessionsServer::new(sessions))
        .add_service(PlacementServer::new(placement).max_decoding_message_size(REQUEST_BYTES_MAX))
        .prepare();
    Wire::new(ServiceExt::<http::Request<Body>>::map_err(routes, |never| match never {}))
}

fn writer(log: &Arc<Log>, entropy: Entropy, authorizer: Arc<Authorizer>) -> Writer {
    let catalog = Arc::new(Catalog::built_in());
    let reader = Reader {
        definitions: Arc::new(Definitions::new(log.store.clone(), catalog.clone())),
        store: log.store.clone(),
        hub: log.hub.clone(),
        barrier: log.clone(),
        catalog,
        index: Arc::new(Index::new(INDEX_BYTES_MAX)),
        limits: ReadLimits { watch_timeout: WATCH_TIMEOUT, ..ReadLimits::default() },
        load: Default::default(),
        watches_overtaken: Default::default(),
        halt: Halt::new(CancellationToken::new()),
    };
    let draw = move || u128::from(entropy.draw()) << 64 | u128::from(entropy.draw());
    Writer {
        roles: Arc::new(Roles::new(reader.store.clone(), authorizer)),
        reader,
        commits: log.clone(),
        clock: log.clock.clone(),
        turns: Arc::new(Turns::new(0)),
        draw: Arc::new(draw),
        limits: WriteLimits::default(),
    }
}
