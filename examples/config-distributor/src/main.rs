//! `config-distributor --from NAMESPACE`: the program around the controller.

use std::error::Error;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use clap::Parser;
use setpoint_client::Client;

/// Copies the configs of one namespace into every other one
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The namespace whose configs are distributed
    #[arg(long, value_name = "NAMESPACE", default_value = "default")]
    from: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    setpoint_runtime::exit_code(run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(io::stderr().is_terminal()).init();
    let client = Client::from_config()?;
    Ok(config_distributor::run(client, &arguments.from, setpoint_runtime::stop_signal()).await?)
}
