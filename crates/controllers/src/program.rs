//! From settings to running controllers.

use std::net::SocketAddr;

use setpoint_client::Client;
use setpoint_runtime::{Manager, ManagerError, ManagerSettings};

use crate::registry::{BuildError, Entry};
use crate::settings::Settings;

/// The program's name: in the identity of who holds a lease, and of who records an event.
const NAME: &str = "setpoint-controllers";

/// Why the controllers could not be put together.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("the settings of the controller {controller} make no sense")]
    Settings {
        controller: &'static str,
        #[source]
        source: BuildError,
    },
    #[error(
        "{address} cannot be listened on; choose another address with --listen-http or SETPOINT_LISTEN_HTTP"
    )]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("the controllers cannot start")]
    Manager(#[source] ManagerError),
}

impl From<ManagerError> for RunError {
    fn from(error: ManagerError) -> Self {
        match error {
            // Only a program knows how its address is set.
            ManagerError::Listen { address, source } => Self::Listen { address, source },
            error => Self::Manager(error),
        }
    }
}

/// A manager with the chosen controllers, which starts them when it is run. It serves health and metrics, if it is told where.
pub fn assemble(
    client: Client,
    chosen: &[&'static Entry],
    settings: &Settings,
    listen_http: Option<SocketAddr>,
) -> Result<Manager, RunError> {
    let mut about = ManagerSettings::named(NAME);
    about.leases = settings.leases.clone();
    about.recorder = settings.recorder.clone();
    about.informers = settings.informers;
    about.listen_http = listen_http;
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
