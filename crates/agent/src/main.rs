//! `setpoint-agent`: the agent of one host, and, with a hidden first argument, what it starts replicas with.

use std::error::Error;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use setpoint_agent::agent;
use setpoint_agent::clock::Clock;
use setpoint_agent::runtime::process::{guest, launch, shim};
use setpoint_agent::settings::{Cli, LogFormat, RunArgs};
use setpoint_agent::simulate;
use setpoint_agent::supervisor::chain;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let outcome: Result<ExitCode, Box<dyn Error>> = match as_helper() {
        Some(outcome) => outcome.map_err(Into::into),
        None => run(Cli::parse().run).map(|()| ExitCode::SUCCESS),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            complain(&*error);
            ExitCode::FAILURE
        }
    }
}

/// What the program does when it has started itself: one thread, and nothing that it does not need, not even the reading of options;
/// there is one shim per replica.
fn as_helper() -> Option<io::Result<ExitCode>> {
    let mut words = std::env::args_os().skip(1);
    let (form, rest) = (words.next()?, words.next());
    let done = match (form.to_str()?, rest) {
        ("guest", Some(folder)) => return Some(guest::run(Path::new(&folder), words.collect())),
        ("shim", Some(folder)) => shim::run(Path::new(&folder)),
        ("launch", Some(shim)) => launch::run(shim.to_str()?.parse().ok()?),
        ("beside", None) => launch::beside(),
        _ => return None,
    };
    Some(done.map(|()| ExitCode::SUCCESS))
}

#[expect(clippy::print_stderr, reason = "this is where the program speaks to whoever started it")]
fn complain(error: &dyn Error) {
    eprintln!("setpoint-agent: {}", chain(error));
}

#[tokio::main]
async fn run(args: RunArgs) -> Result<(), Box<dyn Error>> {
    let filter = EnvFilter::try_new(&args.log)?;
    let logging = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr);
    match args.log_format {
        LogFormat::Text => logging.init(),
        LogFormat::Json => logging.json().init(),
    }
    let stop = CancellationToken::new();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let told = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        told.cancel();
    });
    let client = agent::client(&args)?;
    match args.simulate {
        Some(count) => simulate::run(&args, count, client, Clock::system(), stop).await?,
        None => agent::run(args, client, Clock::system(), stop).await?,
    }
    Ok(())
}
