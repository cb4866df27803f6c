//! The console: pages for operators, and the JSON they are made of, on the HTTP port.
//!
//! Nothing here reads the store. A question of a page becomes a call of the public API within this process (`call`), by the same way as
//! those of clients: identified, admitted, allowed and counted as theirs. It only reads, and every answer is bounded. Who may ask at
//! all is in `guard`; the pages themselves are files in `page/`, which `assets` has.

mod assets;
mod call;
mod cluster;
mod exposure;
mod guard;
mod kinds;
mod ledgers;
mod list;
mod live;
mod overview;
mod refusal;
mod shape;
mod visitor;

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Redirect;
use axum::routing::get;
use tokio::sync::Semaphore;

use crate::config::ServerConfig;
use crate::listen::Calls;

use exposure::Exposure;
use guard::Guard;
pub use visitor::Visitor;

/// Of the places at the HTTP door, one in so many may be a live stream: health checks and scrapers need theirs.
const LIVE_SHARE: usize = 4;
const LIVE_MAX: usize = 64;

/// What the console's handlers share.
#[derive(Clone)]
pub struct Console {
    calls: Calls,
    /// Places for live streams.
    live: Arc<Semaphore>,
    guard: Arc<Guard>,
}

impl Console {
    /// `places` is how many connections the HTTP door lets in.
    pub fn new(config: &ServerConfig, calls: Calls, places: usize) -> Self {
        let live = Arc::new(Semaphore::new((places / LIVE_SHARE).clamp(1, LIVE_MAX)));
        let names = [config.name.clone(), host_of(&config.advertise_client)];
        let names = names.into_iter().chain(config.console_hosts.iter().cloned()).collect();
        let exposure = Exposure::of(config.client_tls.as_ref(), config.access.roles);
        Self { calls, live, guard: Arc::new(Guard { names, exposure }) }
    }

    pub fn routes(self) -> Router {
        let data = Router::new()
            .route("/console/api/cluster", get(cluster::answer))
            .route("/console/api/kinds", get(kinds::answer))
            .route("/console/api/ledgers", get(ledgers::answer))
            .route("/console/api/list", get(list::page))
            .route("/console/api/live", get(live::stream))
            .route("/console/api/newest", get(list::newest))
            .route("/console/api/object", get(list::object))
            .route("/console/api/overview", get(overview::answer))
            .layer(from_fn_with_state(self.guard.clone(), guard::data));
        Router::new()
            .route("/", get(async || Redirect::temporary("/console/")))
            .route("/console", get(async || Redirect::temporary("/console/")))
            .route("/console/", get(assets::index))
            .route("/console/{file}", get(assets::file))
            .merge(data)
            .layer(from_fn(guard::headers))
            .layer(from_fn_with_state(self.guard.clone(), guard::host))
            .with_state(self)
    }
}

/// `host` of `host:port`.
fn host_of(address: &str) -> String {
    address.rsplit_once(':').map_or(address, |(host, _)| host).to_owned()
}
