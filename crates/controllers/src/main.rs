//! `setpoint-controllers`: reads settings, starts the runtime, runs the controllers until it is told to stop.

use std::error::Error;
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use setpoint_client::{Client, config};
use setpoint_controllers::assemble;
use setpoint_controllers::settings::{Arguments, Settings, choose};
use setpoint_runtime::sentence;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

#[tokio::main]
#[expect(clippy::print_stderr, reason = "this is where the program speaks to whoever started it")]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("setpoint-controllers: {}", sentence(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let chosen = choose(&arguments.controllers)?;
    let settings = Settings::read(arguments.file.as_deref())?;
    start_logging(&arguments)?;
    let client = Client::new(config::load(arguments.context.as_deref())?)?;
    let manager = assemble(client, &chosen, &settings, Some(arguments.listen_http))?;
    let stop = CancellationToken::new();
    tokio::spawn(stop_on_signal(stop.clone()));
    Ok(manager.run(stop.cancelled()).await?)
}

fn start_logging(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let filter = EnvFilter::try_new(&arguments.log).map_err(|error| format!("--log: {error}"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let builder = builder.with_ansi(std::io::stderr().is_terminal());
    if arguments.log_json {
        builder.json().init()
    } else {
        builder.init()
    }
    Ok(())
}

/// SIGTERM and Ctrl-C stop it in good order, leases given back; a second one ends it at once.
async fn stop_on_signal(stop: CancellationToken) {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return tracing::warn!("signals cannot be caught; the program will not stop in good order");
    };
    let mut next = async || tokio::select! { _ = terminate.recv() => (), _ = interrupt.recv() => () };
    next().await;
    tracing::info!("stopping");
    stop.cancel();
    next().await;
    std::process::exit(1);
}
