//! Runs the controller until Ctrl-C. Start as many as you like: one works, the others stand by.
//!
//! The cluster is that of `~/.setpoint/config`, or of the file that `SETPOINT_CONFIG` names; without one, a node on this machine.

use std::error::Error;

use setpoint_client::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    greeter::run(Client::from_config()?, async { drop(tokio::signal::ctrl_c().await) }).await
}
