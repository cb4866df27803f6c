//! `config-distributor --from NAMESPACE`: the program around the controller.

use std::error::Error;

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
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let client = Client::from_config()?;
    Ok(config_distributor::run(client, &arguments.from, setpoint_runtime::stop_signal()).await?)
}
