//! From settings to running controllers, and to their end.

use setpoint_client::Client;
use setpoint_runtime::{Manager, ManagerError, ManagerSettings};
use tokio_util::sync::CancellationToken;

use crate::http;
use crate::registry::{BuildError, Entry};
use crate::settings::Settings;

/// The program's name: in the identity of who holds a lease, and of who records an event.
const NAME: &str = "setpoint-controllers";

/// Why the program could not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("the settings of the controller {controller} make no sense")]
    Settings {
        controller: &'static str,
        #[source]
        source: BuildError,
    },
    #[error("the controllers ended")]
    Manager(#[from] ManagerError),
    #[error("health checks and metrics are no longer served")]
    Http(#[source] std::io::Error),
}

/// A manager with the chosen controllers, which starts them when it is run.
pub fn assemble(client: Client, chosen: &[&'static Entry], settings: &Settings) -> Result<Manager, RunError> {
    let mut about = ManagerSettings::named(NAME);
    about.leases = settings.leases.clone();
    about.recorder = settings.recorder.clone();
    let manager = Manager::new(client, about)?;
    for entry in chosen {
        let built = (entry.build)(&manager, settings);
        let controller = built.map_err(|source| RunError::Settings { controller: entry.name, source })?;
        manager.add(match settings.loops.get(entry.name) {
            Some(its_loop) => controller.settings(its_loop.clone()),
            None => controller,
        })?;
    }
    Ok(manager)
}

/// Runs controllers until `stop`, and serves their health and metrics meanwhile.
pub async fn run(
    manager: Manager,
    listener: tokio::net::TcpListener,
    stop: CancellationToken,
) -> Result<(), RunError> {
    let manager = std::sync::Arc::new(manager);
    let served = CancellationToken::new();
    let http = tokio::spawn(http::serve(listener, manager.clone(), served.clone()));
    let ended = manager.run(stop.cancelled()).await;
    // Health and metrics are answered until the last lease is given back.
    served.cancel();
    match http.await {
        Ok(answered) => answered.map_err(RunError::Http)?,
        Err(error) => tracing::error!(%error, "the HTTP listener has panicked"),
    }
    Ok(ended?)
}
