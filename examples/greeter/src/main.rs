//! Runs the controller until Ctrl-C. Start as many as you like: one works, the others stand by.
//!
//! The cluster is that of `~/.setpoint/config`, or of the file that `SETPOINT_CONFIG` names; without one, a node on this machine.

use std::error::Error;
use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use setpoint_client::Client;
use setpoint_runtime::ManagerSettings;

/// Gives each Greeter its Workload
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Where /metrics, /livez and /readyz are served, 127.0.0.1:7480 for example. Nowhere, if it is left out
    #[arg(long, value_name = "ADDRESS")]
    listen_http: Option<SocketAddr>,
}

#[tokio::main]
async fn main() -> ExitCode {
    setpoint_runtime::exit_code(run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(io::stderr().is_terminal()).init();
    let settings =
        ManagerSettings { listen_http: arguments.listen_http, ..ManagerSettings::named(greeter::NAME) };
    Ok(greeter::run(Client::from_config()?, settings, setpoint_runtime::stop_signal()).await?)
}
