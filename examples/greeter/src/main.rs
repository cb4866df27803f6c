//! Runs the controller until Ctrl-C. Start as many as you like: one works, the others stand by.
//!
//! The cluster is that of `~/.setpoint/config`, or of the file that `SETPOINT_CONFIG` names; without one, a node on this machine.

use std::error::Error;

use greeter::NAME;
use greeter::kind::Greeter;
use setpoint_client::Client;
use setpoint_runtime::ensure::ensure_kind;
use setpoint_runtime::{Manager, ManagerSettings};
use setpoint_types::kinds::KindDefinitionSpec;
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).init();

    let client = Client::from_config()?.with_manager(NAME);
    ensure_kind(&client, KindDefinitionSpec::of::<Greeter>()).await?;
    let manager = Manager::new(client, ManagerSettings::named(NAME))?;
    greeter::add_to(&manager)?;
    manager.run(async { drop(tokio::signal::ctrl_c().await) }).await?;
    Ok(())
}
