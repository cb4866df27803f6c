//! `directory-reconciler --name NAME FOLDER`: the program around the controller.

use std::error::Error;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use directory_reconciler::Settings;
use setpoint_client::Client;

/// Keeps the objects of a cluster as the manifests of a folder say
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The folder: *.yaml, *.yml and *.json in it and below
    folder: PathBuf,
    /// What to call the Directory in the cluster: at most 40 lower-case letters, digits and dashes
    #[arg(long, value_name = "NAME", default_value = "main")]
    name: String,
    /// How often to look
    #[arg(long, value_name = "TIME", default_value = "10s")]
    poll: humantime::Duration,
}

#[tokio::main]
async fn main() -> ExitCode {
    setpoint_runtime::exit_code(run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let Arguments { folder, name, poll } = arguments;
    tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(io::stderr().is_terminal()).init();
    let client = Client::from_config()?;
    let settings = Settings { name, folder, poll: poll.into() };
    Ok(directory_reconciler::run(client, settings, setpoint_runtime::stop_signal()).await?)
}
